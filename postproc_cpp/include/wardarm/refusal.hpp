// Why a plan was refused: a status and one plain sentence with point, value and limit.
#pragma once
#include <cstdarg>
#include <cstdio>

#include "wardarm/layout.hpp"

namespace wardarm {

struct Refusal {
  PlanStatus status = PlanStatus::kOk;
  char reason[kText] = {};

  [[nodiscard]] bool refused() const { return status != PlanStatus::kOk; }
  // Sets status and reason (printf's format; cut at kText - 1 bytes). Returns false, for `return refuse(...)`.
  [[gnu::format(printf, 3, 4)]] bool refuse(PlanStatus why, const char* format, ...) {
    status = why;
    std::va_list args;
    va_start(args, format);
    std::vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return false;
  }
};

}  // namespace wardarm
