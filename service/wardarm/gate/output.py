"""What a PWM output does, and which one the configuration asks for."""

from __future__ import annotations

from typing import Protocol

from wardarm.config import Config, ConfigError
from wardarm.gate.sysfs import PwmUnavailable


class PwmOutput(Protocol):
    """One PWM line. `off()` never raises and may be called at any time, also twice, also after `close()`."""

    def on(self) -> int:
        """Switch on. Returns the edge's CLOCK_MONOTONIC time in ns. Raises PwmUnavailable."""
        ...

    def off(self) -> int:
        """Switch off. Returns the edge's CLOCK_MONOTONIC time in ns."""
        ...

    def renew(self) -> None:
        """Called each loop: say the present state again where it could have been lost."""
        ...

    def close(self) -> None:
        """Off, and let go of the line."""
        ...


def open_output(config: Config) -> PwmOutput:
    """The configured output, switched off. Raises PwmUnavailable, ConfigError."""
    gate = config.gate
    if gate.output == "jetson":
        from wardarm.gate.pwm_jetson import JetsonPwm  # its library fails to import on anything but a Jetson

        return JetsonPwm(gate.pin, gate.frequency_hz, gate.duty_percent)
    kind, _, path = gate.output.partition(":")
    if kind == "unix" and path:
        from wardarm.gate.pwm_unix import UnixPwm

        return UnixPwm(path, gate.frequency_hz, gate.duty_percent)
    raise ConfigError(f"gate.output = {gate.output!r}: neither 'jetson' nor 'unix:PATH'")


__all__ = ["PwmOutput", "PwmUnavailable", "open_output"]
