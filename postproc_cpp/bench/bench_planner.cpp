// Times of one plan, its parts and the independent check, on a reach with noise: build/cpp/wardarm_bench.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "../tests/bench_arm.hpp"
#include "wardarm/crc32.hpp"
#include "wardarm/envelope.hpp"
#include "wardarm/half.hpp"
#include "wardarm/sampler.hpp"

namespace wardarm {
namespace {

// A reach with +-2 mm and +-0.8 degrees of noise on every point but the first.
std::unique_ptr<RawChunk> noisy(const Ur5e& arm, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(-1, 1);
  auto raw = test::line(arm, test::home(), {0.15, -0.3, -0.15}, 0.24);
  constexpr double amplitude[kDof] = {0.004, 0.0033, 0.005, 0.0044, 0.0044, 0.0044};
  for (std::size_t i = kDof; i < std::size_t{kPoints} * kDof; ++i) {
    raw->traj[i] = test::half_of(half_to_double(raw->traj[i]) + amplitude[i % kDof] * unit(random));
  }
  return raw;
}

void plan(benchmark::State& state) {
  Planner planner(Params::parse(test::kParams, "bench"));
  std::vector<std::unique_ptr<RawChunk>> chunks;
  for (unsigned i = 0; i < 32; ++i) chunks.push_back(noisy(planner.arm(), i));
  const PlanStart start{{test::home(), Joints::Zero(), Joints::Zero()}, true};
  auto out = std::make_unique<Trajectory>();
  std::size_t i = 0;
  int rounds = 0;
  for (auto _ : state) {
    planner.plan(*chunks[i++ % chunks.size()], start, *out);
    rounds += planner.last_rounds();
  }
  state.counters["rounds"] = benchmark::Counter(rounds, benchmark::Counter::kAvgIterations);
}
BENCHMARK(plan)->Unit(benchmark::kMicrosecond);

void inverse(benchmark::State& state) {
  const Ur5e arm(Params::parse(test::kParams, "bench"));
  const Pose pose = arm.tcp(test::home());
  const Branch branch = arm.branch(test::home());
  Joints q;
  for (auto _ : state) benchmark::DoNotOptimize(arm.inverse(pose, branch, test::home(), q));
}
BENCHMARK(inverse)->Unit(benchmark::kNanosecond);

void check(benchmark::State& state) {
  Planner planner(Params::parse(test::kParams, "bench"));
  const std::string path = "/tmp/wardarm_bench_" + std::to_string(::getpid());
  std::ofstream(path) << test::kParams;
  const Envelope envelope(path);
  std::remove(path.c_str());
  auto out = std::make_unique<Trajectory>();
  planner.plan(*noisy(planner.arm(), 1), {{test::home(), Joints::Zero(), Joints::Zero()}, true}, *out);
  for (auto _ : state) {
    benchmark::DoNotOptimize(envelope.check({out->knots, out->knot_count}, out->ramp_s, 0, {}).ok);
  }
  state.counters["knots"] = out->knot_count;
}
BENCHMARK(check)->Unit(benchmark::kMillisecond);

void crc_of_a_trajectory(benchmark::State& state) {
  const auto out = std::make_unique<Trajectory>();
  std::memset(static_cast<void*>(out.get()), 3, sizeof *out);
  for (auto _ : state) benchmark::DoNotOptimize(crc32(out.get(), sizeof *out));
}
BENCHMARK(crc_of_a_trajectory)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace wardarm
