// Several configurations at once: the checks spend their time in kinematics, which vectorises over time.
//
// GCC and Clang vector extensions as wide as a register: four lanes with AVX2, two with NEON or SSE2 (a wider vector
// than the machine has is taken apart by the compiler, and becomes slower than none). Every template here also
// works on plain double.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace wardarm {

#ifdef __AVX2__
inline constexpr int kLanes = 4;
#else
inline constexpr int kLanes = 2;
#endif
using Lane = double __attribute__((vector_size(kLanes * sizeof(double))));
using LaneBits = std::int64_t __attribute__((vector_size(kLanes * sizeof(std::int64_t))));

// first, first + step, ...
inline Lane lanes(double first, double step) {
  Lane out;
  for (int i = 0; i < kLanes; ++i) out[i] = first + i * step;
  return out;
}
inline Lane spread(double value) { return lanes(value, 0.0); }
inline Lane larger(Lane a, Lane b) { return a > b ? a : b; }
inline double larger(double a, double b) { return a > b ? a : b; }
inline Lane magnitude(Lane a) { return a < 0.0 ? -a : a; }
inline double magnitude(double a) { return std::fabs(a); }
inline Lane root_of(Lane a) {
  for (int i = 0; i < kLanes; ++i) a[i] = std::sqrt(a[i]);
  return a;
}
inline double largest(Lane a) {
  double out = a[0];
  for (int i = 1; i < kLanes; ++i) out = std::max(out, a[i]);
  return out;
}
inline bool any(LaneBits a) {
  std::int64_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= a[i];
  return bits != 0;
}
inline double largest(double a) { return a; }

inline void sine_cosine(double x, double& s, double& c) {
  s = std::sin(x);
  c = std::cos(x);
}

// Sine and cosine to about 1e-16 for |x| < 1e5: three-part reduction by pi/2, then the polynomials of Cephes
// (S. Moshier, sincos.c).
inline void sine_cosine(Lane x, Lane& s, Lane& c) {
  constexpr double two_over_pi = 0.63661977236758134308;
  constexpr double part1 = 1.5707962512969970703125;  // pi/2 in three parts
  constexpr double part2 = 7.5497894158615963533521e-8;
  constexpr double part3 = 5.3903025299577647655448e-15;
  constexpr double round_bias = 6755399441055744.0;  // 1.5 x 2^52: adding it rounds to an integer
  const Lane biased = x * two_over_pi + round_bias;
  const Lane turns = biased - round_bias;
  const auto quadrant = std::bit_cast<LaneBits>(biased);
  const Lane r = ((x - turns * part1) - turns * part2) - turns * part3;
  const Lane z = r * r;
  Lane sp = spread(1.58962301576546568060e-10);
  sp = sp * z - 2.50507477628578072866e-8;
  sp = sp * z + 2.75573136213857245213e-6;
  sp = sp * z - 1.98412698295895385996e-4;
  sp = sp * z + 8.33333333332211858878e-3;
  sp = sp * z - 1.66666666666666307295e-1;
  const Lane sine = r + r * z * sp;
  Lane cp = spread(-1.13585365213876817300e-11);
  cp = cp * z + 2.08757008419747316778e-9;
  cp = cp * z - 2.75573141792967388112e-7;
  cp = cp * z + 2.48015872888517045348e-5;
  cp = cp * z - 1.38888888888730564116e-3;
  cp = cp * z + 4.16666666666665929218e-2;
  const Lane cosine = 1.0 - 0.5 * z + z * z * cp;
  const LaneBits swap = (quadrant & 1) != 0;
  const Lane s0 = swap ? cosine : sine;
  const Lane c0 = swap ? sine : cosine;
  s = (quadrant & 2) != 0 ? -s0 : s0;
  c = ((quadrant + 1) & 2) != 0 ? -c0 : c0;
}

// A vector of three; T is double or Lane.
template <class T>
struct Vec {
  T x, y, z;
};
template <class T>
Vec<T> operator+(const Vec<T>& a, const Vec<T>& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class T>
Vec<T> operator-(const Vec<T>& a, const Vec<T>& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class T, class S>
Vec<T> operator*(const Vec<T>& a, const S& k) {
  return {a.x * k, a.y * k, a.z * k};
}
template <class T>
Vec<T> cross(const Vec<T>& a, const Vec<T>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class T>
T dot(const Vec<T>& a, const Vec<T>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

}  // namespace wardarm
