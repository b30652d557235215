"""Mutants that change nothing that anybody can see, each with its reason. A key that no mutant has is an error."""

from __future__ import annotations

PERMIT = "service/wardarm/gate/permit.py"
WORDS = "service/wardarm/gate/words.py"
RING = "service/wardarm/shm/ring.py"
ADMIT = "service/wardarm/arm/admit.py"
PLAYER = "service/wardarm/arm/player.script"
ENVELOPE = "postproc_cpp/src/envelope.cpp"

_OFFSETS = "_SEQ, _GEN, _PUBLISH, _BYTES, _CRC = 0, 8, 16, 24, 28"
_WORD = "offsets are divided by 8: any of the eight bytes names the same 64-bit word"
_CRC = "the CRC is the upper half of the word at _BYTES; this name is there for the reader of the layout"
_ONLY = "an array of one: its first is its last"
_FIRST = "the first comparison with what was said before is always true: nothing was"
_SMALL = "w[i] = times(sine, (s > 1e-12 ? std::asin(std::min(s, 1.0)) / s : 1.0) / kCycle_s);"
_CHANCE = "a computed number meets its limit to the last bit by chance only, and either answer is right there"
_NOTHING = "it multiplies a vector of zeros"
_NEXT = "the next line sets what the fourth number went over"
_ENDS = "a bye ends or ramps in the next cycle, and a trajectory takes three to arrive: the state says it already"
_WRAP = "any number below 2^31 serves as the end of the cycle counter; a wrap counts as one cycle passed"

EQUIVALENT: dict[tuple[str, str], str] = {
    (WORDS, "self._next_look_s = 0.0 | 0.0 -> -1.0"): "CLOCK_MONOTONIC is never negative",
    (WORDS, "self._last_ns = 0 | 0 -> -1"): _FIRST,
    (WORDS, "self._last_ns = 0 | 0 -> 1"): _FIRST,
    (RING, f"{_OFFSETS} | 0 -> 1"): _WORD,
    (RING, f"{_OFFSETS} | 8 -> 9 (after ', _CRC = 0, ')"): _WORD,
    (RING, f"{_OFFSETS} | 16 -> 17"): _WORD,
    (RING, f"{_OFFSETS} | 24 -> 25"): _WORD,
    (RING, f"{_OFFSETS} | 28 -> 27"): _CRC,
    (RING, f"{_OFFSETS} | 28 -> 29"): _CRC,
    (RING, "_HEAD, _BEAT = 64, 72 | 64 -> 65"): _WORD,
    (RING, "_HEAD, _BEAT = 64, 72 | 72 -> 73"): _WORD,
    (RING, "head = np.frombuffer(raw[:_HEADER_BYTES], BLOCK_HEADER)[0] | 0 -> -1"): _ONLY,
    (RING, "self.head = np.frombuffer(self.map, BLOCK_HEADER, 1)[0] | 1 -> 2"): "a second header is read and not used",
    (RING, "self.head = np.frombuffer(self.map, BLOCK_HEADER, 1)[0] | 0 -> -1"): _ONLY,
    (RING, "if generation == 0: | 0 -> -1"): "generation 0 has no bytes that check: None a few looks later",
    (RING, "if size_crc & 0xFFFFFFFF != len(raw) or zlib.crc32(raw) != size_crc >> 32: | 0xFFFFFFFF -> 0x7fffffff"):
        "a payload is shorter than 2 GB",
    (RING, "return Slot(np.frombuffer(raw, self.payload)[0], generation, publish_ns) | 0 -> -1"): _ONLY,
    (RING, 'return bytes(field).split(b"\\0", 1)[0].decode("utf-8", "ignore") | 1 -> 2'):
        "only the part before the first NUL is taken",
    (ADMIT, 'i = int(np.clip(np.searchsorted(times, t_s, side="right") - 1, 0, len(times) - 2)) | 0 -> -1'):
        "before the first knot the clamp of u ends at the first knot from either side",
    (PLAYER, "step_s = 0.0 | 0.0 -> 1.0"): "set again before it is used",
    (PLAYER, "step_s = 0.0 | 0.0 -> -1.0"): "set again before it is used",
    (PLAYER, "next_bank = -1 | 1 -> 2"): "any negative number is no bank",
    (PLAYER, "next_bank = -1 | 1 -> 0"): "at rest nobody reads it before the next trajectory sets it; one bank of three stays free",
    (PLAYER, "if frozen and (state == 2 or state == 3): | 2 -> 3"):
        "so many pulses in a cycle also end the permit: the line above has made it 3",
    (PLAYER, "if state > 1 or discard_asked or bye_asked: | or -> and (after 'scard_asked ')"): _ENDS,
    (PLAYER, "if state != 2 or discard_asked or bye_asked: | or -> and (after 'scard_asked ')"): _ENDS,
    (PLAYER, "if total != head[11] or ramp < 0.05 or not in_order: | < -> <="): "no whole number of microseconds comes out as 0.05",
    (ENVELOPE, 'std::copy_n(need("box_low", 3).begin(), 3, low_.begin()); | 3 -> 4 (after \'3).begin(), \')'): _NEXT,
    (ENVELOPE, 'std::copy_n(need("box_high", 3).begin(), 3, high_.begin()); | 3 -> 4 (after \'3).begin(), \')'): _NEXT,
    (ENVELOPE, 'std::copy_n(need("patient_low", 3).begin(), 3, patient_low_.begin()); | 3 -> 4 (after \'3).begin(), \')'): _NEXT,
    (ENVELOPE, 'std::copy_n(need("patient_high", 3).begin(), 3, patient_high_.begin()); | 3 -> 4 (after \'3).begin(), \')'):
        "the line that says that there is a patient sets what the fourth number went over",
    (ENVELOPE, 'if (key.rfind("liquid.", 0) != 0) continue; | 0 -> 1 (after \'("liquid.", \')'):
        "what begins at 1 does not begin at 0, and what begins at 0 cannot begin at 1 again",
    (ENVELOPE, 'if (other.rfind("profile.", 0) != 0) continue; | 0 -> 1 (after \'"profile.", \')'):
        "what begins at 1 does not begin at 0, and what begins at 0 cannot begin at 1 again",
    (ENVELOPE, f"{_SMALL} | 1.0 -> 2.0 (after 'std::min(s, ')"):
        "a sine passes 1 by rounding only, at a right angle in 2 ms: no number is refused as that angle is",
    (ENVELOPE, "double worst = 0.0; | 0.0 -> -1.0"): "the first ratio is not below 0 and takes its place",
    (ENVELOPE, "for (std::size_t from = 0; from < walk.moment.size(); from += kStopStride) { | < -> <="):
        "from the end on nothing is ahead: the inner loop ends at once",
    (ENVELOPE, "if (!(ratio <= worst)) worst = std::isnan(worst) ? worst : ratio; // a NaN is worse than any, and stays | <= -> <"):
        "an equal ratio takes the place of itself",
    (ENVELOPE, "const Vector a = blend(m.v, m.a, {}, step.r1, rr, 0.0); | 0.0 -> 1.0"): _NOTHING,
    (ENVELOPE, "const Vector a = blend(m.v, m.a, {}, step.r1, rr, 0.0); | 0.0 -> -1.0"): _NOTHING,
    (ENVELOPE, "worse(length(blend(m.w, m.wa, {}, step.r1, rr, 0.0)) / limits.angular[1]); | 0.0 -> 1.0"): _NOTHING,
    (ENVELOPE, "worse(length(blend(m.w, m.wa, {}, step.r1, rr, 0.0)) / limits.angular[1]); | 0.0 -> -1.0"): _NOTHING,
    (ENVELOPE, "if (profile < 0 || static_cast<std::size_t>(profile) >= profiles_.size()) { | 0 -> -1"):
        "-1 as a size is beyond every row: refused in the same words",
    (ENVELOPE, "if (limits.tilt_rad < kPi) { | < -> <="): "no tilt passes half a turn: a row without liquid refuses none",
    (ENVELOPE, "std::max(limits.tilt_rad, std::acos(std::clamp(-walk.tcp[0].z[2], -1.0, 1.0)) + kTiltRoom_rad); | 1.0 -> 2.0 (after 'z[2], -1.0, ')"):
        "beyond 1 by rounding it hangs straight down, and of the limit and no number the limit is taken",
    (ENVELOPE, "if (!(tilt <= most)) { | <= -> <"): _CHANCE,
    (ENVELOPE, "if (!(verdict.max_ratio_plan <= 1.0 + kRounding)) { // a NaN refuses | <= -> <"): _CHANCE,
    (ENVELOPE, "} else if (!(verdict.max_ratio_stop <= 1.0 + kRounding)) { | <= -> <"): _CHANCE,
    (ENVELOPE, 'if (key.rfind("profile.", 0) != 0) continue; | 0 -> 1 (after \'"profile.", \')'):
        "what begins at 1 does not begin at 0, and what begins at 0 cannot begin at 1 again",
    (PLAYER, "silent = True | True -> False"): "the first cycle has no pulses yet and sets it",
    (PLAYER, "if u > 1.0: | > -> >="): "1 becomes 1",
    (PLAYER, "if path_s >= duration_s: | >= -> >"): "then it is set to what it is",
    (PLAYER, "if path_s >= seam: | >= -> >"): "both laws are in the same place at the seam; no sum of cycles meets it",
    (PLAYER, "while path_s >= segment_end and segment < bank_count[play_bank] - 2: | >= -> >"):
        "both quintics are in the same place at their knot",
    (PLAYER, "if blend < 1.0: | < -> <="): "at 1 nothing is left to add",
    (PLAYER, "if blend < 1.0: | 1.0 -> 2.0"): "from 1 on nothing is left to add",
    (PLAYER, "if blend > 1.0: | > -> >="): "1 becomes 1",
    (PLAYER, "if blend > 1.0: | 1.0 -> 2.0"): "passes 1 by a hundredth at most, where 1e-8 rad is left of a milliradian",
    (ENVELOPE, "for (std::size_t j = 0; j < kDof; ++j) { | < -> <="):
        "in the search for what is not finite: the seventh number is the next field's, which is finite or found by itself",
    (PLAYER, "at = 0 | 0 -> 1"): "the place in the window at which counting begins is arbitrary",
    (PLAYER, "beat_age = BEAT_CYCLES + 1 | 1 -> 2"): "old is old",
    (PLAYER, "beat_age = BEAT_CYCLES + 1 | 1 -> 0"): "the first cycle counts it up before it is looked at",
    (PLAYER, "steady = 0 # cycles in a row with a cycle's worth of pulses | 0 -> 1"):
        "the first cycle has no pulses yet and sets it to 0",
    (PLAYER, "steady = 0 # cycles in a row with a cycle's worth of pulses | 0 -> -1"):
        "the first cycle has no pulses yet and sets it to 0",
    (PLAYER, "if cycle > 2000000000: | > -> >="): _WRAP,
    (PLAYER, "if cycle > 2000000000: | 2000000000 -> 2000000001"): _WRAP,
    (PLAYER, "if cycle > 2000000000: | 2000000000 -> 1999999999"): _WRAP,
    (PLAYER, "if cycle > 2000000000: | > -> <="): _WRAP,
    (PLAYER, "cycle = 0 | 0 -> 1"): _WRAP,
    (PLAYER, "cycle = 0 | 0 -> -1"): _WRAP,
    (ENVELOPE, "double value = 0.0; | 0.0 -> 1.0"): "overwritten before it is read",
    (ENVELOPE, "double value = 0.0; | 0.0 -> -1.0"): "overwritten before it is read",
}  # fmt: skip

_AXIS = "const Vector axis = angle > 0.0 ? times(turn, 1.0 / angle) : Vector{0, 0, 1};"
for change in (
    "0 -> 1 (after 'e) : Vector{')", "0 -> -1 (after 'e) : Vector{')", "0 -> 1 (after ': Vector{0, ')",
    "0 -> -1 (after ': Vector{0, ')", "1 -> 2 (after 'ector{0, 0, ')", "1 -> 0 (after 'ector{0, 0, ')",
):  # fmt: skip
    EQUIVALENT[ENVELOPE, f"{_AXIS} | {change}"] = "a turn by nothing is the same about every axis"
for change in ("> -> >=", "1e-12 -> 2e-12", "1e-12 -> 5e-13", "1.0 -> 2.0 (after '1.0)) / s : ')",
               "1.0 -> 0.5 (after '1.0)) / s : ')"):  # fmt: skip
    EQUIVALENT[ENVELOPE, f"{_SMALL} | {change}"] = (
        "so small a turn is its sine to the last bit, and no ratio comes of it"
    )
