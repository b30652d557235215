// The structs of layout.hpp as a dictionary, for the test that compares them with shm/layouts.py.
#pragma once
#include <nanobind/nanobind.h>

// {struct name: {"size": bytes, "fields": {field: (offset, bytes)}}}, and "blocks": {name: (kind, slots, payload)}.
nanobind::dict native_layout();
