"""layout.hpp and its Python mirror are the same, byte for byte."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from wardarm import _native
from wardarm.shm import layouts

HEADER = (Path(__file__).parents[1] / "postproc_cpp/include/wardarm/layout.hpp").read_text()


@pytest.mark.parametrize("name", sorted(layouts.STRUCTS))
def test_a_struct_has_the_same_size_and_fields(name: str) -> None:
    native = _native.layout()["structs"][name]
    dtype = layouts.STRUCTS[name]
    assert dtype.names is not None
    assert dtype.fields is not None
    assert native["size"] == dtype.itemsize
    mirrored = {f: (dtype.fields[f][1], dtype.fields[f][0].itemsize) for f in dtype.names}
    assert {f: tuple(place) for f, place in native["fields"].items()} == mirrored


def test_no_struct_is_missing() -> None:
    assert set(_native.layout()["structs"]) == set(layouts.STRUCTS)


def test_blocks_that_postproc_opens_have_the_same_name_kind_and_slots() -> None:
    mirrored = {name: (int(kind), slots, dtype.itemsize) for kind, (name, dtype, slots) in layouts.BLOCKS.items()}
    for name, shape in _native.layout()["blocks"].items():
        assert mirrored[name] == tuple(shape)


def test_every_enumeration_has_the_same_values() -> None:
    found = 0
    for name, body in re.findall(r"enum class (\w+) : std::uint\d+_t \{(.*?)\};", HEADER, re.S):
        pairs = re.findall(r"k(\w+) = (\d+)", body)
        mirror = getattr(layouts, name)
        native = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).upper(): int(value) for key, value in pairs}
        assert {m.name: m.value for m in mirror} == native, name
        found += 1
    assert found >= 11


def test_constants_are_the_same() -> None:
    for native, mirror in [
        ("kMagic", layouts.MAGIC), ("kLayoutVersion", layouts.LAYOUT_VERSION), ("kPoints", layouts.POINTS),
        ("kDof", layouts.DOF), ("kMaxKnots", layouts.MAX_KNOTS), ("kMaxHolds", layouts.MAX_HOLDS),
        ("kText", layouts.TEXT), ("kInstructionBytes", layouts.INSTRUCTION_BYTES),
    ]:  # fmt: skip
        value = re.search(rf"\b{native} = (0x[0-9A-Fa-f]+|\d+);", HEADER)
        assert value is not None
        assert int(value.group(1), 0) == mirror


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4096, 29_001])
def test_crc_is_the_one_of_zlib(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert _native.crc32(data) == zlib.crc32(data)
