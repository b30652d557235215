"""The controller's core, ticked by hand: servo, pulses, safety. Every figure is in controller cycles."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
import pytest
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller import Controller, RobotMode, Runtime, SafetyMode
from wardarm.sim.ur_controller.controller import ELBOW_UP
from wardarm.sim.ur_controller.dashboard import Dashboard
from wardarm.sim.ur_controller.kinematics import DhParameters, Kinematics, from_pose, inverse, product, to_pose


@pytest.fixture
def controller() -> Iterator[Controller]:
    ours = Controller(KinematicPlant(ELBOW_UP))
    yield ours
    ours.close()


def start(controller: Controller, body: str) -> None:
    """Submit a program and tick until it runs (the compiler works beside the clock)."""
    controller.submit(f"def prog():\n{body}\nend\n")
    started = controller.slot.started
    end = time.monotonic() + 60
    while controller.slot.started == started:
        controller.tick()
        assert time.monotonic() < end, list(controller.log)


def ticks(controller: Controller, count: int) -> None:
    for _ in range(count):
        controller.tick()


def texts(controller: Controller) -> list[str]:
    return [text for _, text in controller.log]


# --- kinematics


def test_forward_kinematics_of_the_zero_pose_is_the_sum_of_the_links() -> None:
    dh = DhParameters()
    frame = Kinematics(dh).flange([0.0] * 6)
    assert frame[9] == pytest.approx(dh.a[1] + dh.a[2])
    assert frame[10] == pytest.approx(-(dh.d[3] + dh.d[5]))
    assert frame[11] == pytest.approx(dh.d[0] - dh.d[4])


def test_inverse_kinematics_finds_back_what_forward_kinematics_gave() -> None:
    kinematics = Kinematics(DhParameters())
    generator = np.random.default_rng(3)
    for _ in range(20):
        q = np.array(ELBOW_UP) + generator.uniform(-0.4, 0.4, 6)
        found = kinematics.joints(kinematics.flange(list(q)), ELBOW_UP)
        assert found == pytest.approx(list(q), abs=1e-7)


def test_pose_and_frame_are_each_others_inverse_also_at_half_a_turn() -> None:
    for rotation in ([0.0, 0.0, 0.0], [0.3, -0.2, 1.0], [math.pi, 0.0, 0.0], [0.0, math.pi * 0.6, math.pi * 0.8]):
        frame = from_pose([0.1, 0.2, 0.3, *rotation])
        again = from_pose(to_pose(frame))
        assert again == pytest.approx(frame, abs=1e-9)
        assert product(frame, inverse(frame)) == pytest.approx((1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0), abs=1e-12)


# --- servo


def test_servoj_with_a_short_lookahead_is_the_target(controller: Controller) -> None:
    start(
        controller, "q = get_target_joint_positions()\nq[0] = 0.001\nservoj(q, t=0.002, lookahead_time=0.03)\nservoj(q)"
    )
    assert controller.servo.q[0] == pytest.approx(0.001)
    assert controller.servo.qd[0] == pytest.approx(0.5)


@pytest.mark.parametrize("slider", [1.0, 0.5, 0.25])
def test_the_speed_slider_stretches_servoj(controller: Controller, slider: float) -> None:
    controller.slider = controller.slider_now = slider
    start(controller, "q = get_target_joint_positions()\ni = 0\nwhile i < 100:\n servoj(q, t=0.002)\n i = i + 1\nend")
    begin = controller.cycle
    while controller.slot.runtime is Runtime.PLAYING:
        controller.tick()
    assert controller.cycle - begin == pytest.approx(100 / slider, abs=2)


def test_the_arm_follows_34_ms_late(controller: Controller) -> None:
    start(
        controller,
        "q = get_target_joint_positions()\nwhile True:\n q[0] = q[0] + 0.001\n servoj(q, t=0.002, lookahead_time=0.03)\nend",
    )
    ticks(controller, 300)
    behind_s = (controller.servo.q[0] - controller.state.q[0]) / controller.servo.qd[0]
    assert behind_s == pytest.approx(0.034, abs=0.001)


def test_movej_ends_at_its_goal_and_keeps_speed_and_acceleration(controller: Controller) -> None:
    start(controller, "movej([0.5, -1.57, 1.57, -1.57, -1.57, 0], a=1.0, v=0.4)")
    speeds = []
    while controller.slot.runtime is Runtime.PLAYING:
        controller.tick()
        speeds.append(controller.servo.qd[0])
    assert controller.servo.q[0] == pytest.approx(0.5)
    assert max(speeds) == pytest.approx(0.4, rel=0.01)
    assert np.abs(np.diff(speeds)).max() / 0.002 < 1.1


def test_movel_moves_along_a_straight_line(controller: Controller) -> None:
    begin = controller.target_tcp_pose
    start(controller, "p0 = get_target_tcp_pose()\nmovel(pose_add(p0, p[0, 0.1, 0.05, 0, 0, 0]), v=0.5)")
    off = []
    while controller.slot.runtime is Runtime.PLAYING:
        controller.tick()
        d = np.array(controller.target_tcp_pose[:3]) - begin[:3]
        along = d @ np.array([0, 0.1, 0.05]) / np.hypot(0.1, 0.05)
        off.append(np.linalg.norm(d - along * np.array([0, 0.1, 0.05]) / np.hypot(0.1, 0.05)))
    assert np.array(controller.target_tcp_pose[:3]) - begin[:3] == pytest.approx([0, 0.1, 0.05], abs=1e-6)
    assert max(off) < 1e-6


def test_stopping_a_moving_program_brakes_to_rest(controller: Controller) -> None:
    start(controller, "movej([2, -1.57, 1.57, -1.57, -1.57, 0], a=3, v=1)")
    ticks(controller, 300)
    assert controller.servo.qd[0] > 0.9
    controller.stop_program()
    ticks(controller, 60)
    assert controller.servo.qd == [0.0] * 6


def test_a_jump_beyond_the_joint_speed_is_a_protective_stop(controller: Controller) -> None:
    start(
        controller,
        "q = get_target_joint_positions()\nq[2] = q[2] + 0.05\nservoj(q, t=0.002, lookahead_time=0.03)\nsleep(1)",
    )
    controller.tick()
    assert controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    assert "joint 2" in controller.safety.reason
    assert controller.slot.runtime is Runtime.PAUSED


def test_a_fast_tool_is_a_protective_stop_sooner_in_reduced_mode(controller: Controller) -> None:
    turn = "speedj([2.2, 0, 0, 0, 0, 0], 10, 0.4)\nstopj(10)"
    start(controller, turn)
    ticks(controller, 200)
    assert controller.safety.mode is SafetyMode.NORMAL
    controller.stop_program()
    ticks(controller, 400)
    controller.safety.reduced(True, controller.time_s)
    start(controller, turn.replace("2.2", "-2.2"))
    ticks(controller, 400)
    assert controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    assert "TCP" in controller.safety.reason


@pytest.mark.parametrize(("reduced", "limit_m_s"), [(False, 1.5), (True, 0.78)])
def test_a_move_keeps_within_the_limits_and_takes_longer(
    controller: Controller, reduced: bool, limit_m_s: float
) -> None:
    """As the tests of Universal Robots' client library expect of times that cannot be kept."""
    controller.safety.reduced(reduced, controller.time_s)
    start(controller, "movej([2, -0.3, 0.1, -1.57, -1.57, 0], t=0.05)")
    fastest_m_s = fastest_rad_s = 0.0
    before = controller.target_tcp_frame[9:]
    for _ in range(3000):
        ticks(controller, 1)
        here = controller.target_tcp_frame[9:]
        fastest_m_s = max(fastest_m_s, math.dist(here, before) / 0.002)
        fastest_rad_s = max(fastest_rad_s, *map(abs, controller.servo.qd))
        before = here
    assert controller.safety.may_move
    assert controller.servo.q[0] == pytest.approx(2.0)
    assert limit_m_s * 0.9 < fastest_m_s < limit_m_s * 1.01
    assert fastest_rad_s < math.pi * 1.01


# --- pulses


def ticks_of(controller: Controller, decoder: int, cycles: int) -> int:
    controller.encoder(0, decoder, 8)
    ticks(controller, cycles)
    return controller.encoders[0].ticks


@pytest.mark.parametrize(("decoder", "expected"), [(0, 0), (2, 20), (3, 10), (4, 10)])
def test_1_khz_gives_so_many_ticks_in_10_ms(controller: Controller, decoder: int, expected: int) -> None:
    controller.encoder(1, decoder, 8)
    controller.pwm(8, True)
    ticks(controller, 50)
    before = controller.encoders[1].ticks
    ticks(controller, 5)
    assert controller.encoders[1].ticks - before == expected


@pytest.mark.parametrize("frequency_hz", [500.0, 733.0, 1000.0, 4321.0])
def test_no_pulse_is_lost_or_counted_twice_over_ten_seconds(controller: Controller, frequency_hz: float) -> None:
    controller.encoder(0, 2, 8)
    controller.pwm(8, True, frequency_hz=frequency_hz)
    ticks(controller, 5000)
    assert controller.encoders[0].ticks == pytest.approx(2 * frequency_hz * 10, abs=3)


def test_pulses_start_and_end_at_their_true_times(controller: Controller) -> None:
    controller.encoder(0, 2, 8)
    now_ns = 10**12
    controller.tick(now_ns)
    controller.pwm(8, True, t_ns=now_ns + 500_000)
    controller.tick(now_ns + 2_000_000)  # 1.5 ms of pulses: rising at 0, 1 ms, falling at 0.5, 1.5 ms
    assert controller.encoders[0].ticks == 4
    controller.pwm(8, False, t_ns=now_ns + 3_200_000)  # from 2.0 to 3.2 ms: rising 2.5, falling 3.0
    controller.tick(now_ns + 4_000_000)
    assert controller.encoders[0].ticks == 6
    controller.tick(now_ns + 6_000_000)
    assert controller.encoders[0].ticks == 6


def test_a_repeated_datagram_changes_nothing(controller: Controller) -> None:
    assert controller.pwm(8, True, t_ns=5)
    assert not controller.pwm(8, True, t_ns=5)


def test_a_plain_input_aliases_1_khz_into_a_constant(controller: Controller) -> None:
    controller.pwm(8, True)
    controller.tick()
    first = controller.digital_in >> 8 & 1
    seen = set()
    for _ in range(100):
        controller.tick()
        seen.add(controller.digital_in >> 8 & 1)
    assert seen == {first}


# --- safety


def moving(controller: Controller) -> None:
    start(
        controller,
        "while True:\n movej([1, -1.57, 1.57, -1.57, -1.57, 0])\n movej([0, -1.57, 1.57, -1.57, -1.57, 0])\nend",
    )
    ticks(controller, 300)
    assert any(controller.servo.qd)


def test_a_protective_stop_cannot_be_unlocked_for_five_seconds(controller: Controller) -> None:
    moving(controller)
    dashboard = Dashboard(controller)
    controller.safety.protective_stop(controller.time_s, "test")
    ticks(controller, 2499)
    assert dashboard.answer("unlock protective stop").startswith("Cannot unlock protective stop until 5s")
    assert controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    ticks(controller, 2)
    assert dashboard.answer("unlock protective stop") == "Protective stop releasing"
    assert controller.safety.mode is SafetyMode.NORMAL
    assert controller.slot.runtime is Runtime.PAUSED
    assert dashboard.answer("play") == "Starting program"
    ticks(controller, 100)
    assert controller.slot.runtime is Runtime.PLAYING


def test_a_safeguard_stop_pauses_and_its_end_resumes(controller: Controller) -> None:
    moving(controller)
    controller.safety.safeguard(True, controller.time_s)
    ticks(controller, 100)
    assert (controller.safety.mode, controller.slot.runtime) == (SafetyMode.SAFEGUARD_STOP, Runtime.PAUSED)
    assert controller.servo.qd == [0.0] * 6
    controller.safety.safeguard(False, controller.time_s)
    ticks(controller, 100)
    assert (controller.safety.mode, controller.slot.runtime) == (SafetyMode.NORMAL, Runtime.PLAYING)


def test_a_safeguard_with_a_reset_input_waits_for_it(controller: Controller) -> None:
    moving(controller)
    controller.safety.safeguard_needs_reset = True
    controller.safety.safeguard(True, controller.time_s)
    ticks(controller, 100)
    assert not controller.safety.safeguard_reset(controller.time_s)
    controller.safety.safeguard(False, controller.time_s)
    ticks(controller, 100)
    assert controller.safety.mode is SafetyMode.SAFEGUARD_STOP
    assert controller.safety.safeguard_reset(controller.time_s)
    ticks(controller, 100)
    assert controller.slot.runtime is Runtime.PLAYING


@pytest.mark.parametrize(
    ("system", "mode"), [(False, SafetyMode.ROBOT_EMERGENCY_STOP), (True, SafetyMode.SYSTEM_EMERGENCY_STOP)]
)
def test_after_an_emergency_stop_power_and_brakes_must_be_asked_for(
    controller: Controller, system: bool, mode: SafetyMode
) -> None:
    moving(controller)
    dashboard = Dashboard(controller)
    controller.safety.emergency_stop(True, controller.time_s, system)
    ticks(controller, 200)
    assert (controller.safety.mode, controller.safety.robot_mode) == (mode, RobotMode.POWER_OFF)
    assert controller.slot.program is None
    assert controller.servo.qd == [0.0] * 6
    dashboard.answer("power on")
    ticks(controller, 500)
    assert controller.safety.robot_mode is RobotMode.POWER_OFF
    controller.safety.emergency_stop(False, controller.time_s, system)
    assert controller.safety.mode is SafetyMode.NORMAL
    dashboard.answer("power on")
    ticks(controller, 300)
    assert controller.safety.robot_mode is RobotMode.IDLE
    dashboard.answer("brake release")
    ticks(controller, 300)
    assert controller.safety.robot_mode is RobotMode.RUNNING


@pytest.mark.parametrize(("fault", "mode"), [(False, SafetyMode.VIOLATION), (True, SafetyMode.FAULT)])
def test_a_violation_needs_a_restart_of_the_safety(controller: Controller, fault: bool, mode: SafetyMode) -> None:
    controller.safety.violation(controller.time_s, "test", fault)
    assert controller.safety.mode is mode
    assert controller.safety_bits >> 10 & 1
    dashboard = Dashboard(controller)
    dashboard.answer("power on")
    ticks(controller, 500)
    assert controller.safety.robot_mode is RobotMode.POWER_OFF
    assert dashboard.answer("restart safety") == "Restarting safety"
    assert controller.safety.mode is SafetyMode.NORMAL


def test_a_program_does_not_start_on_a_robot_without_power(controller: Controller) -> None:
    controller.safety.power_off()
    controller.submit("def prog():\n sync()\nend\n")
    end = time.monotonic() + 60
    while not any("refused" in t for t in texts(controller)):
        controller.tick()
        assert time.monotonic() < end
    assert controller.slot.program is None


def test_local_control_refuses_scripts_and_dashboard_commands(controller: Controller) -> None:
    controller.remote = False
    controller.submit("def prog():\n sync()\nend\n")
    ticks(controller, 20)
    assert controller.slot.started == 0
    assert "local control" in texts(controller)[-1]
    assert "remote control" in Dashboard(controller).answer("play")


def test_pausing_takes_100_ms_and_resuming_goes_on_from_there(controller: Controller) -> None:
    moving(controller)
    assert controller.pause()
    ticks(controller, 49)
    assert controller.slot.runtime is Runtime.PAUSING
    ticks(controller, 3)
    assert controller.slot.runtime is Runtime.PAUSED
    resting = list(controller.servo.q)
    ticks(controller, 200)
    assert controller.servo.q == pytest.approx(resting, abs=1e-3)
    assert controller.play()
    ticks(controller, 100)
    assert controller.slot.runtime is Runtime.PLAYING


def test_a_silent_rtde_client_trips_the_watchdog(controller: Controller) -> None:
    start(controller, 'rtde_set_watchdog("input_int_register_18", 10, "stop")\nwhile True:\n sync()\nend')
    ticks(controller, 49)
    assert controller.slot.runtime is Runtime.PLAYING
    ticks(controller, 5)
    assert controller.slot.runtime is Runtime.STOPPED


def test_a_runtime_error_stops_the_program_with_its_line(controller: Controller) -> None:
    start(controller, "sync()\nwrite_output_integer_register(48, 1)\nsync()")
    ticks(controller, 5)
    assert controller.slot.runtime is Runtime.STOPPED
    assert controller.slot.last_error == "program prog stopped: line 3: output integer register 48: there are 0 to 47"


def test_joints_pushed_by_hand_move_target_and_actual_position(controller: Controller) -> None:
    controller.move_by_hand([0.1, 0, 0, 0, 0, 0])
    controller.tick()
    assert controller.state.q[0] == pytest.approx(0.1)
    assert controller.servo.q[0] == pytest.approx(0.1)
