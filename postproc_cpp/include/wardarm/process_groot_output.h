// The customer's C interface: normalised points in, millimetres and degrees out.
#pragma once
#include "wardarm/layout.hpp"

// raw: 64 x 6 floats, x y z roll pitch yaw in [-1, 1]. points: room for 64. Returns 0; -1 for a null pointer; or
// 1 + the index of the first point that is not finite or out of range, and then writes nothing.
extern "C" int process_groot_output(const float* raw, wardarm::TrajectoryPoint* points);
