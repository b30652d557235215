"""Mutants of the envelope check (C++), against its own GoogleTests.

Numbers and comparisons are compiled once, all of them into one program that reads from the environment which one is
active (`WARDARM_MUTANT`); what cannot be switched at run time (logic, flags) is compiled one by one. Everything is
built in a folder of its own; the tree's build is not touched.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mutation.mutants import CPP, Mutant, text_mutants
from mutation.python_run import ROOT

CPP_ROOT = ROOT / "postproc_cpp"
# Each part: its source, the first line that is mutated, the tests (the quicker ones first).
PARTS = {
    "envelope": ("envelope.cpp", "constexpr double kPi", ("liquid", "exact", "edges")),
    "envelope links": ("envelope_links.cpp", "constexpr double kLeastElbowSine", ("links", "liquid", "edges")),
    "envelope fingers": ("envelope_fingers.cpp", "constexpr double kCycle_s", ("fingers",)),
}
END = "}  // namespace wardarm\n"
CPU_LIMIT_S = 20
FLAGS = ("-std=c++20", "-O1", "-w", "-Wno-narrowing", "-D_GLIBCXX_ASSERTIONS", f"-I{CPP_ROOT / 'include'}")
# A number in these places is a type's, not the program's.
_OF_A_TYPE = re.compile(r"std::array<[^>]*>|(?:char \w+|axis_name)\[\d+\]")

SWITCH = """
#include <cstdlib>
#include <utility>
namespace {
inline int mutant_active() {
  static const int number = [] { const char* text = std::getenv("WARDARM_MUTANT"); return text ? std::atoi(text) : -1; }();
  return number;
}
template <class T>
T mutant_number(T orig, int a, T first, int b, T second) { return mutant_active() == a ? first : mutant_active() == b ? second : orig; }
enum Op { LT, LE, GT, GE, EQ, NE };
struct MutantCompare { Op orig; int a; Op first; int b; Op second; };
template <class L>
struct Half { const L& left; MutantCompare compare; };
template <class L>
Half<L> operator<(const L& left, MutantCompare compare) { return {left, compare}; }
template <class L, class R>
bool operator>(Half<L> half, const R& right) {
  const MutantCompare& c = half.compare;
  const auto& left = half.left;
  switch (mutant_active() == c.a ? c.first : mutant_active() == c.b ? c.second : c.orig) {
    case LT: return left < right;
    case LE: return left <= right;
    case GT: return left > right;
    case GE: return left >= right;
    case EQ: return left == right;
    default: return left != right;
  }
}
}  // namespace
"""
_NAMES = {"<": "LT", "<=": "LE", ">": "GT", ">=": "GE", "==": "EQ", "!=": "NE"}


def source_of(part: str) -> Path:
    return CPP_ROOT / "src" / PARTS[part][0]


def files(part: str) -> list[Path]:
    """What the results of a part depend on."""
    return [source_of(part), CPP_ROOT / "tests" / "envelope_bench.hpp", *tests_of(part)]


def tests_of(part: str) -> list[Path]:
    return [CPP_ROOT / "tests" / f"test_envelope_{name}.cpp" for name in PARTS[part][2]]


def mutants(part: str) -> list[Mutant]:
    file = source_of(part)
    source = file.read_text()
    found = text_mutants(str(file.relative_to(ROOT)), source, CPP, PARTS[part][1], END, "//")
    return [m for m in found if not _in_a_type(source, m)]


def _in_a_type(source: str, mutant: Mutant) -> bool:
    begin = mutant.begin
    head = source.rfind("\n", 0, begin) + 1
    row = source[head : source.find("\n", begin)]
    return any(m.start() <= begin - head < m.end() for m in _OF_A_TYPE.finditer(row))


def _switched(source: str, found: list[Mutant]) -> tuple[str, dict[int, Mutant]]:
    """The source with every number and order comparison behind a switch, and which number is which mutant."""
    groups: dict[tuple[int, str], list[tuple[int, Mutant, str]]] = {}
    for number, mutant in enumerate(found):
        change = re.fullmatch(r".* \| (\S+) -> (\S+)( \(after .*\))?( \(no\. \d+\))?", mutant.key)
        if change is None or not (change[1] in _NAMES or re.match(r"[\d.]", change[1])):
            continue
        if change[1] in ("==", "!="):
            continue
        groups.setdefault((mutant.begin, change[1]), []).append((number, mutant, change[2]))
    out, at, switched = [], 0, {}
    for (begin, text), variants in sorted(groups.items()):
        (a, _, first), (b, _, second) = (variants * 2)[:2]
        switched |= {number: mutant for number, mutant, _ in variants}
        if text in _NAMES:
            new = f"< MutantCompare{{{_NAMES[text]}, {a}, {_NAMES[first]}, {b}, {_NAMES[second]}}} >"
        else:
            kind = "double" if re.search(r"[.e]", text) else "int"
            new = f"mutant_number<{kind}>({text}, {a}, {first}, {b}, {second})"
        out += [source[at:begin], new]
        at = begin + len(text)
    out.append(source[at:])
    text = "".join(out)
    text = re.sub(r"^( *)constexpr (double|int|std::size_t) ", r"\1const \2 ", text, flags=re.M)
    include = text.rindex("#include", 0, text.index("namespace wardarm {"))
    line = text.index("\n", include) + 1
    return text[:line] + SWITCH + text[line:], switched


class Bench:
    """Compiles and runs in `folder`."""

    def __init__(self, part: str, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.objects = []
        source = source_of(part)
        others = [f for f in sorted(source.parent.glob("envelope*.cpp")) if f != source]
        for file in (*tests_of(part), *others):
            out = folder / f"{file.name}.o"
            self._do("g++", *FLAGS, "-c", str(file), "-o", str(out))
            self.objects.append(str(out))

    def _do(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[-3:])}: {done.stderr[:3000]}")

    def build(self, source: str, name: str, *flags: str) -> Path:
        """Raises RuntimeError if it does not compile."""
        text, program = self.folder / f"{name}.cpp", self.folder / name
        text.write_text(source)
        self._do("g++", *FLAGS, *flags, "-c", str(text), "-o", f"{program}.o")
        self._do("g++", f"{program}.o", *self.objects, "-lgtest", "-lgtest_main", "-lpthread", "-o", str(program))
        return program

    def passes(self, program: Path, mutant: int = -1) -> bool:
        """Whether every test passes."""

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
            resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))

        done = subprocess.run(
            [str(program), "--gtest_brief=1", "--gtest_fail_fast"], env=os.environ | {"WARDARM_MUTANT": str(mutant)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit, cwd=self.folder,
        )  # fmt: skip
        return done.returncode == 0


def run(part: str, folder: Path, keys: set[str] | None = None) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant and whether it survived. `keys`: only these."""
    source, found = source_of(part).read_text(), mutants(part)
    bench = Bench(part, folder)
    text, switched = _switched(source, found)
    program = bench.build(text, "switched")
    if not bench.passes(program):
        raise RuntimeError("the envelope's tests fail without any mutation")
    for number, mutant in enumerate(found):
        if keys is not None and mutant.key not in keys:
            continue
        if number in switched:
            yield mutant, bench.passes(program, number)
            continue
        try:
            alone = bench.build(mutant.source, "alone", "-O0")  # compiling is what takes long
        except RuntimeError:
            yield mutant, False  # the compiler noticed
            continue
        yield mutant, bench.passes(alone)


def main() -> int:
    """`python -m mutation.envelope_run PART FOLDER`: prints what survives."""
    killed = survived = 0
    for mutant, alive in run(sys.argv[1], Path(sys.argv[2])):
        killed, survived = killed + (not alive), survived + alive
        if alive:
            print(f"{mutant.file}:{mutant.line}: {mutant.key}", flush=True)
    print(f"{killed} killed, {survived} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
