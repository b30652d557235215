#include "wardarm/process_groot_output.h"

#include <cmath>
#include <cstddef>

#include "wardarm/model_box.hpp"

extern "C" int process_groot_output(const float* raw, wardarm::TrajectoryPoint* points) {
  if (raw == nullptr || points == nullptr) return -1;
  for (int i = 0; i < wardarm::kPoints; ++i) {
    const float* row = raw + static_cast<std::ptrdiff_t>(i) * wardarm::kDof;
    for (int k = 0; k < wardarm::kDof; ++k) {
      if (!std::isfinite(row[k]) || std::fabs(row[k]) > 1.0F + static_cast<float>(wardarm::kRangeSlack)) return i + 1;
    }
  }
  for (int i = 0; i < wardarm::kPoints; ++i) {
    points[i] = wardarm::denormalise(raw + static_cast<std::ptrdiff_t>(i) * wardarm::kDof);
  }
  return 0;
}
