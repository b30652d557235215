"""The player's text, ready to upload: `player.script` with its parameters filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

from wardarm.config import Config

WINDOW_S = 0.010  # the player counts encoder ticks over five of its 2 ms cycles
TICKS_PER_PWM_CYCLE = 2  # decoder type 2 counts both edges
TOLERANCE = 0.3  # share of the nominal tick count that may be missing or too much
CYCLE_S = 0.002
_PLACE = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class PlayerParameters:
    """What the player must know of this installation. Addresses as the robot's controller sees them."""

    host: str
    port: int
    encoder_a: int = 8
    encoder_b: int = 9
    encoder_index: int = 0
    pwm_hz: float = 1000.0
    beat_timeout_s: float = 0.2
    gripper_host: str = "127.0.0.1"
    gripper_port: int = 63352
    gripper_speed: int = 255
    gripper_force: int = 80
    tool_kg: float = 1.03
    tool_cog: tuple[float, float, float] = (0.0, 0.0, 0.06)
    lookahead_s: float = 0.03
    gain: int = 300


def parameters(config: Config) -> PlayerParameters:
    """From the configuration."""
    arm = config.arm
    return PlayerParameters(
        host=arm.own_address,
        port=arm.trajectory_port,
        encoder_a=arm.encoder_pins[0],
        encoder_b=arm.encoder_pins[1],
        pwm_hz=config.gate.frequency_hz,
        gripper_host=config.arm.host if config.sim.enabled else "127.0.0.1",
        gripper_port=arm.gripper_port,
        gripper_force=arm.gripper_close_force,
        tool_kg=arm.payload_kg,
        tool_cog=arm.payload_cog,
    )


def script(p: PlayerParameters) -> str:
    """The program text. Raises ValueError for an address or a frequency that the player cannot use."""
    ticks = p.pwm_hz * WINDOW_S * TICKS_PER_PWM_CYCLE
    if ticks < 8:
        raise ValueError(f"gate.frequency_hz = {p.pwm_hz}: the player needs 400 Hz or more to see pulses within 10 ms")
    for name in ("host", "gripper_host"):
        address = getattr(p, name)
        if not re.fullmatch(r"[A-Za-z0-9.:-]+", address):
            raise ValueError(f"{name} = {address!r}: not an address")
    values: dict[str, str] = {
        "host": p.host,
        "port": str(p.port),
        "encoder_index": str(p.encoder_index),
        "encoder_a": str(p.encoder_a),
        "encoder_b": str(p.encoder_b),
        "ticks_low": str(round(ticks * (1 - TOLERANCE))),
        "ticks_high": str(round(ticks * (1 + TOLERANCE))),
        "cycle_low": str(round(ticks * CYCLE_S / WINDOW_S) - 1),
        "cycle_high": str(round(ticks * CYCLE_S / WINDOW_S) + 1),
        "beat_cycles": str(round(p.beat_timeout_s / CYCLE_S)),
        "gripper_host": p.gripper_host,
        "gripper_port": str(p.gripper_port),
        "gripper_speed": str(p.gripper_speed),
        "gripper_force": str(p.gripper_force),
        "tool_kg": f"{p.tool_kg:.4f}",
        "tool_cog": "[" + ", ".join(f"{v:.4f}" for v in p.tool_cog) + "]",
        "lookahead_s": f"{p.lookahead_s:.4f}",
        "gain": str(p.gain),
    }
    text = resources.files("wardarm").joinpath("arm", "player.script").read_text("utf-8")
    return _PLACE.sub(lambda m: values[m.group(1)], text)
