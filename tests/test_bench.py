"""`wardarm bench postproc` measures: its figures are there, finite and within the limits that it reports."""

from __future__ import annotations

from wardarm.ops import bench_postproc


def test_the_bench_reports_what_it_measured() -> None:
    figures = bench_postproc.run(reaches=4, seed=3, profile="ward")
    assert figures["plans"] > 20
    assert 0 < figures["plan_us"]["p50"] <= figures["plan_us"]["p99"]
    assert 0.5 < figures["max_limit_ratio"] <= 1
    assert 0.5 < figures["max_stop_ratio"] <= 1
    assert figures["seam"]["accepted_pct"] >= 95
    assert figures["seam"]["dq_max"] < 1e-9
    assert figures["jitter_deg_peak"] < 0.8  # the noise itself
