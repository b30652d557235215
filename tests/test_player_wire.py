"""What travels to the player: exact on the wire's grid, refused beyond it."""

from __future__ import annotations

import numpy as np
import pytest
from player_bench import HOME, knots_of, law
from wardarm.arm.player import PlayerParameters, script
from wardarm.arm.wire import (
    BLOCK_BYTES,
    Kind,
    WireError,
    decode,
    encode_bye,
    encode_discard,
    encode_trajectory,
    wire_id,
)

MOVE = np.array([0.4, 0.1, -0.1, 0.05, 0.0, 0.2])


def knots() -> np.ndarray:
    return knots_of(law(HOME, MOVE, 1.5), 1.5, grip=0.4)


def test_a_trajectory_comes_back_as_the_quantised_knots() -> None:
    message, rounded = encode_trajectory(7, 3, 0.25, 0.3, 1.5, 0.2, knots())
    header, back = decode(message)
    assert (header.kind, header.id, header.join_id, header.knot_count) == (Kind.TRAJECTORY, 7, 3, len(rounded))
    assert (header.join_path_s, header.ramp_s, header.duration_s, header.payload_kg) == (0.25, 0.3, 1.5, 0.2)
    assert np.array_equal(back, rounded)
    assert len(message) == BLOCK_BYTES * (1 + len(rounded))


def test_quantising_costs_less_than_half_a_step_of_the_grid() -> None:
    _, rounded = encode_trajectory(7, 0, 0.0, 0.3, 1.5, 0.0, knots())
    error = np.abs(rounded - knots()).max(axis=0)
    assert (error <= np.array([0.5e-6] + [0.5e-8] * 6 + [0.5e-7] * 6 + [0.5e-6] * 7) * 1.001).all()


def test_discard_and_bye_are_one_block() -> None:
    assert decode(encode_discard())[0].kind is Kind.DISCARD
    assert decode(encode_bye())[0].kind is Kind.BYE
    assert len(encode_bye()) == BLOCK_BYTES


def test_ids_travel_as_their_low_31_bits() -> None:
    message, _ = encode_trajectory((1 << 40) + 9, (1 << 31) + 8, 0.1, 0.3, 1.5, 0.0, knots())
    header, _ = decode(message)
    assert (header.id, header.join_id) == (9, 8)
    assert wire_id((1 << 40) + 9) == 9


def changed(row: int, column: int, value: float) -> np.ndarray:
    ours = knots()
    ours[row, column] = value
    return ours


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"knots": knots()[:1]}, "shape"),
        ({"knots": knots()[:, :19]}, "shape"),
        ({"knots": np.tile(knots(), (6, 1))}, "shape"),
        ({"knots": changed(3, 2, np.nan)}, r"knot 3: q_rad\[1\] = nan is not finite"),
        ({"knots": changed(3, 1, 22.0)}, r"q_rad\[0\] = 22.0, the wire carries up to 21.47"),
        ({"knots": changed(0, 0, 0.01)}, "begin at 0"),
        ({"knots": changed(2, 0, 0.05)}, "grow"),
        ({"knots": changed(2, 19, 1.2)}, "grip"),
        ({"duration_s": 1.4}, "last knot is at 1.5"),
        ({"ramp_s": 0.01}, "ramp_s = 0.01 s is outside"),
        ({"join_path_s": -0.1}, "join_path_s"),
        ({"id": 1 << 31}, "0 means no trajectory"),
        ({"payload_kg": 6.0}, "payload_kg = 6.0"),
    ],
)
def test_what_cannot_travel_is_refused_by_name(arguments: dict, text: str) -> None:
    good = {
        "id": 7,
        "join_id": 0,
        "join_path_s": 0.0,
        "ramp_s": 0.3,
        "duration_s": 1.5,
        "payload_kg": 0.0,
        "knots": knots(),
    }
    with pytest.raises(WireError, match=text):
        encode_trajectory(**{**good, **arguments})


@pytest.mark.parametrize("byte", [0, 7, 15, BLOCK_BYTES + 3, 43])
def test_a_changed_byte_does_not_decode(byte: int) -> None:
    message = bytearray(encode_trajectory(7, 0, 0.0, 0.3, 1.5, 0.0, knots())[0])
    message[byte] ^= 0x41
    with pytest.raises(WireError):
        decode(bytes(message))


def test_the_players_text_has_every_parameter_filled_in() -> None:
    text = script(PlayerParameters("192.168.1.1", 50010))
    assert "{{" not in text
    assert 'global HOST = "192.168.1.1"' in text
    assert "global TICKS_LOW = 14" in text
    assert "global TICKS_HIGH = 26" in text
    assert "global BEAT_CYCLES = 100" in text


def test_an_address_that_could_end_the_string_is_refused() -> None:
    with pytest.raises(ValueError, match="not an address"):
        script(PlayerParameters('1.2.3.4")\npowerdown()\n#', 50010))


def test_a_frequency_too_low_to_watch_is_refused() -> None:
    with pytest.raises(ValueError, match="400 Hz"):
        script(PlayerParameters("192.168.1.1", 50010, pwm_hz=300))
