// wardarm-postproc: watches groot_raw and answers every chunk with one trajectory in groot_traj.
//
//   wardarm-postproc --params planner.params [--prefix P]
//
// Reads `groot_raw` (eye) and `wardarm_arm` (arm), writes `groot_traj`. A chunk is seen within 1 ms and planned in well
// under one more; the block's beat is renewed every 20 ms. Killed or frozen: no new trajectory comes, the one under way
// ends at rest. JSON lines on stderr. Exit codes: 0 after SIGTERM or SIGINT, 1 if something it needs is wrong, 2 usage.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "wardarm/answer.hpp"
#include "wardarm/ring.hpp"

namespace {

using namespace wardarm;

constexpr long kPoll_ns = 1'000'000;
constexpr std::uint64_t kBeat_ns = 20'000'000;
constexpr std::uint64_t kReopen_ns = 100'000'000;

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int /*signal*/) { stop_requested = 1; }

// Text as a JSON string.
std::string quoted(const char* text) {
  std::string out = "\"";
  for (const char* c = text; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') out += '\\';
    if (static_cast<unsigned char>(*c) >= 0x20) out += *c;
  }
  return out + "\"";
}

void log_line(const char* level, const char* event, const std::string& fields) {
  std::fprintf(stderr, "{\"t_ns\":%llu,\"level\":\"%s\",\"process\":\"postproc\",\"event\":\"%s\"%s%s}\n",
               static_cast<unsigned long long>(monotonic_ns()), level, event, fields.empty() ? "" : ",",
               fields.c_str());
}

std::string number(const char* key, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "\"%s\":%.10g", key, value);
  return text;
}

void log_answer(const Trajectory& t) {
  const bool ok = t.status == static_cast<std::uint32_t>(PlanStatus::kOk);
  log_line(ok ? "info" : "warning", ok ? "planned" : "refused",
           number("id", static_cast<double>(t.id)) + "," + number("raw_id", static_cast<double>(t.raw_id)) + "," +
               number("status", t.status) + "," + number("duration_s", t.duration_s) + "," +
               number("ramp_s", t.ramp_s) + "," + number("max_ratio", static_cast<double>(t.max_ratio_plan)) + "," +
               number("plan_us", static_cast<double>(t.plan_end_ns - t.plan_start_ns) * 1e-3) + "," +
               "\"reason\":" + quoted(t.reason));
}

// A reader that waits for its block and follows it when the file is made anew.
template <class Payload>
class Followed {
 public:
  explicit Followed(std::string prefix) : prefix_(std::move(prefix)) {}

  Reader<Payload>* get(std::uint64_t now_ns) {
    if (now_ns >= next_look_ns_) {
      next_look_ns_ = now_ns + kReopen_ns;
      if (reader_ && reader_->replaced()) reader_.reset();
      if (!reader_) open();
    }
    return reader_ ? &*reader_ : nullptr;
  }
  // True once after each (re)opening.
  bool is_new() { return std::exchange(opened_, false); }

 private:
  void open() {
    try {
      reader_.emplace(prefix_);
      opened_ = true;
      problem_.clear();
    } catch (const BlockError& error) {
      if (problem_ != error.what()) log_line("info", "waiting", "\"reason\":" + quoted(error.what()));
      problem_ = error.what();
    }
  }

  std::string prefix_;
  std::string problem_;
  std::optional<Reader<Payload>> reader_;
  std::uint64_t next_look_ns_ = 0;
  bool opened_ = false;
};

int run(const std::string& params_path, const std::string& prefix) {
  Answerer answerer(Params::load(params_path));
  Writer<Trajectory> writer(prefix);
  {
    const Reader<Trajectory> before(prefix);
    const std::uint64_t head = before.head();
    const auto slot = std::make_unique<Slot<Trajectory>>();
    for (std::uint64_t g = head > 4 ? head - 3 : 1; g <= head; ++g) {
      if (before.at(g, *slot)) answerer.remember(slot->data);
    }
  }
  log_line("info", "ready", "\"params\":" + quoted(params_path.c_str()) + ",\"prefix\":" + quoted(prefix.c_str()));
  Followed<RawChunk> chunks(prefix);
  Followed<ArmStatus> arm(prefix);
  Slot<RawChunk> chunk;
  Slot<ArmStatus> status;
  std::uint64_t seen = 0;
  std::uint64_t next_beat_ns = 0;
  while (stop_requested == 0) {
    const std::uint64_t now_ns = monotonic_ns();
    if (now_ns >= next_beat_ns) {
      writer.beat();
      next_beat_ns = now_ns + kBeat_ns;
    }
    Reader<ArmStatus>* arm_reader = arm.get(now_ns);
    if (Reader<RawChunk>* reader = chunks.get(now_ns)) {
      const std::uint64_t head = reader->head();
      if (chunks.is_new()) {
        // Only the newest chunk can still be waiting for an answer.
        seen = head > 0 ? head - 1 : 0;
        if (head > 0 && reader->at(head, chunk) && chunk.data.id == answerer.last_raw_id()) seen = head;
      }
      for (; seen < head; ++seen) {
        if (!reader->at(seen + 1, chunk)) {
          log_line("warning", "chunk_lost", number("generation", static_cast<double>(seen + 1)));
          continue;
        }
        const bool arm_known = arm_reader != nullptr && arm_reader->latest(status);
        const Trajectory& answer = answerer.answer(chunk.data, arm_known ? &status.data : nullptr, monotonic_ns());
        writer.publish(answer);
        log_answer(answer);
      }
    }
    timespec pause{0, kPoll_ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  log_line("info", "stopped", "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string params_path;
  std::string prefix;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--params") == 0 && i + 1 < argc) {
      params_path = argv[++i];
    } else if (std::strcmp(argv[i], "--prefix") == 0 && i + 1 < argc) {
      prefix = argv[++i];
    } else {
      params_path.clear();
      break;
    }
  }
  if (params_path.empty()) {
    std::fprintf(stderr, "usage: wardarm-postproc --params FILE [--prefix P]\n");
    return 2;
  }
  struct sigaction action {};
  action.sa_handler = request_stop;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  try {
    return run(params_path, prefix);
  } catch (const std::exception& error) {
    log_line("error", "failed", "\"reason\":" + quoted(error.what()));
    return 1;
  }
}
