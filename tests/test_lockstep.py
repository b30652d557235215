"""The simulated controller without a clock: faithful to the player, equal to the bit, and arm's checks before it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from player_bench import HELD, IDLE, LOADED, RAMPING, RUNNING, knots_of, law
from ur_bench import SERVICE, robot
from wardarm import config as configuration
from wardarm._native import Planner
from wardarm.arm.params import write_planner_params
from wardarm.arm.wire import encode_trajectory
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.policy import contract
from wardarm.shm.layouts import RAW_CHUNK, TRAJECTORY, RefusalReason
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.lockstep_arm import LockstepArm
from wardarm.sim.ur_controller import DhParameters

MOVE = np.array([0.3, 0.1, -0.1, 0.2, 0.0, 0.05])
DURATION_S = 2.0


def message(sim: Lockstep, id: int = 1, **more: Any) -> bytes:
    knots = knots_of(law(sim.target_q_rad, MOVE, DURATION_S), DURATION_S, **more)
    return encode_trajectory(id, 0, 0.0, 0.3, DURATION_S, 0.0, knots)[0]


def loaded(sim: Lockstep, **more: Any) -> Lockstep:
    sim.load_player()
    sim.send(message(sim, **more))
    sim.until(lambda s: s.int_register(12) == LOADED)
    return sim


def play(sim: Lockstep) -> Lockstep:
    loaded(sim)
    sim.permit(True)
    sim.until(lambda s: s.int_register(12) == RUNNING)
    sim.until(lambda s: s.int_register(12) == IDLE)
    return sim


def test_the_player_plays_a_trajectory_to_its_end() -> None:
    with Lockstep() as sim:
        start = sim.target_q_rad
        play(sim)
        assert np.abs(sim.target_q_rad - start - MOVE).max() < 1e-8
        sim.run(0.5)
        assert np.abs(sim.q_rad - start - MOVE).max() < 1e-5
        rows = sim.history[sim.history["ints"][:, 0] == RUNNING]
        at = law(start, MOVE, DURATION_S)
        planned = np.array([at(t)[0] for t in rows["doubles"][:, 0]])
        assert np.abs(rows["target_q_rad"] - planned).max() < 2e-8


def test_a_trajectory_of_41_knots_loads_in_one_block_a_cycle() -> None:
    with Lockstep() as sim:
        sim.load_player()
        sim.send(message(sim))
        cycles = sim.until(lambda s: s.int_register(12) == LOADED)
        assert 42 <= cycles <= 45


def test_a_lost_permit_ramps_to_held_on_the_path() -> None:
    with Lockstep() as sim:
        start = sim.target_q_rad
        loaded(sim)
        sim.permit(True)
        sim.until(lambda s: s.double_register(12) > 0.8)
        sim.permit(False)
        lost = sim.cycle
        sim.until(lambda s: s.int_register(12) == RAMPING)
        assert sim.cycle - lost <= 4
        sim.until(lambda s: s.int_register(12) == HELD)
        at = law(start, MOVE, DURATION_S)
        assert np.abs(sim.target_q_rad - at(sim.double_register(12))[0]).max() < 2e-8
        assert sim.controller.servo.qd == [0.0] * 6 or np.abs(sim.controller.servo.qd).max() < 1e-3


def test_the_first_motion_comes_as_soon_as_the_player_takes_the_pulses_for_a_permit() -> None:
    for phase_s in (0.0, 0.0007, 0.0019):
        with Lockstep(pulse_phase_s=phase_s) as sim:
            loaded(sim)
            sim.permit(True)
            assert 4 <= sim.until(lambda s: s.int_register(12) == RUNNING) <= 6


def test_without_a_beat_there_is_no_permit() -> None:
    with Lockstep() as sim:
        loaded(sim)
        sim.beating = False
        sim.run(0.3)
        sim.pulses(True)
        sim.request(1)
        sim.run(0.5)
        assert sim.int_register(12) == LOADED


def test_two_runs_and_two_processes_give_the_same_bits() -> None:
    code = "import test_lockstep as t; print(t.play(t.Lockstep(seed=3)).digest())"
    environment = {**os.environ, "PYTHONPATH": f"{SERVICE}:{Path(__file__).parent}", "PYTHONHASHSEED": "77"}
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    with Lockstep(seed=3) as first, Lockstep(seed=3) as second:
        digest = play(first).digest()
        assert play(second).digest() == digest
    assert other.stdout.strip() == digest


def test_the_bedside_gives_the_same_bits_too_and_moves_with_the_target() -> None:
    digests = []
    for _ in range(2):
        with Lockstep.bedside(seed=7) as sim:
            play(sim)
            sim.run(0.3)
            assert np.abs(sim.q_rad - sim.target_q_rad).max() < 1e-3
            digests.append(sim.digest())
    assert digests[0] == digests[1]


def test_it_runs_faster_than_ten_times_real_time() -> None:
    with Lockstep() as sim:
        loaded(sim)
        sim.permit(True)
        began, cycle = time.process_time(), sim.cycle
        sim.until(lambda s: s.int_register(12) == RUNNING)
        sim.until(lambda s: s.int_register(12) == IDLE)
        assert (sim.cycle - cycle) * 0.002 / (time.process_time() - began) > 10


def test_the_gripper_hears_the_player() -> None:
    with Lockstep() as sim:
        loaded(sim, grip=lambda t: 1.0 if t < 0.5 else 0.2)
        sim.permit(True)
        sim.until(lambda s: s.int_register(12) == RUNNING)
        sim.until(lambda s: s.int_register(12) == IDLE)
        assert ("POS", 204) in sim.gripper.sets
        sim.run(1.0)
        assert sim.fingers.opening == pytest.approx(0.2, abs=0.01)


def test_a_program_that_cannot_start_says_why() -> None:
    with Lockstep() as sim, pytest.raises(RuntimeError, match="unknown function 'moveq'"):
        sim.load("def p():\n moveq([0,0,0,0,0,0])\nend\n")


class PlannedArm:
    """A planner of the configuration beside a lock-step controller with the configuration's arm."""

    def __init__(self) -> None:
        self.config = configuration.load("desk")
        arm = self.config.arm
        with tempfile.TemporaryDirectory() as folder:
            self.planner = Planner(str(write_planner_params(self.config, Path(folder) / "planner.params")))
        home = self.config.poses.home
        self.kinematics = Kinematics(arm)
        pose = TcpPose(np.array(home[:3]), np.radians(home[3:]))
        self.home = self.kinematics.solve(pose, np.radians([153.5, -117.9, 97.4, -69.5, -90.0, -116.5]))
        self.sim = Lockstep(dh=DhParameters(arm.dh_a, arm.dh_d, arm.dh_alpha), tcp=arm.tcp, q=self.home.tolist())
        self.sim.load_player()
        self.arm = LockstepArm(self.sim, self.config)

    def plan(self, rise_m: float) -> Any:
        """A slow way straight up from home."""
        start = self.kinematics.forward(self.home).six
        points = np.repeat(start[None], contract.HORIZON, 0)
        u = np.linspace(0, 1, contract.HORIZON)
        points[:, 2] += rise_m * (10 * u**3 - 15 * u**4 + 6 * u**5)
        chunk = np.zeros((), RAW_CHUNK)
        chunk["id"], chunk["profile"] = 1, self.config.profile_index()
        chunk["traj"] = contract.normalise(points).astype(np.float16).reshape(-1).view(np.uint16)
        chunk["grip"] = np.ones(contract.HORIZON, np.float16).view(np.uint16)
        zero = np.zeros(6)
        return np.frombuffer(self.planner.plan(chunk.tobytes(), self.home, zero, zero), TRAJECTORY)[0]


def test_a_planned_trajectory_goes_through_arms_checks_and_moves_the_arm() -> None:
    bench = PlannedArm()
    answer = bench.arm.offer(bench.plan(0.05), id=5)
    assert answer.accepted, answer
    bench.arm.permit(True)
    bench.arm.rest()
    assert bench.arm.status()["finished_id"] == 5
    assert answer.knots is not None
    assert np.abs(bench.sim.target_q_rad - answer.knots["q_rad"][-1]).max() < 1e-7


def test_arm_refuses_what_the_envelope_forbids_and_the_player_what_is_old() -> None:
    bench = PlannedArm()
    plan = bench.plan(0.05).copy()
    fast = plan.copy()
    for name, power in (("t_s", 1), ("qd_rad_s", -1), ("qdd_rad_s2", -2)):
        fast["knots"][name] *= 0.1**power
    fast["duration_s"] *= 0.1
    answer = bench.arm.offer(fast, id=5)
    assert (answer.accepted, answer.reason, answer.by) == (False, RefusalReason.ENVELOPE, "arm")
    assert bench.arm.offer(plan, id=6).accepted
    old = bench.arm.offer(plan, id=6)
    assert not old.accepted


def test_a_controller_clocked_from_outside_stands_still_between_steps() -> None:
    with robot("--lock-step") as controller:
        assert controller.ask("state")["cycle"] == 0
        controller.run(
            "def p():\n i = 0\n while True:\n  i = i + 1\n  write_output_integer_register(12, i)\n  sync()\n end\nend\n"
        )
        controller.ask("step 1")  # the script port is served before the cycle, wherever the bytes are by then
        controller.wait("program", lambda s: s["runtime"] == "PLAYING" or not controller.ask("step 1"))
        before = controller.state()
        controller.ask("step 100")
        after = controller.state()
        assert after["cycle"] == before["cycle"] + 100
        assert after["output_ints"][0] == before["output_ints"][0] + 100
        assert controller.state() == after
