"""One loop of arm: read everything, latch holds, carry out commands, send what may be sent, say how it is."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

from wardarm.arm.admit import ArmNow, Refused
from wardarm.arm.causes import Board, RobotEvents
from wardarm.arm.channel import LOAD_DEADLINE_S, Loads, PlayerServer, Sent
from wardarm.arm.check import Check
from wardarm.arm.commands import Commands
from wardarm.arm.errand import Errand
from wardarm.arm.gripper import GripperWatch
from wardarm.arm.holds import Cause, HoldLatch
from wardarm.arm.intake import TrajectoryFeed, checked
from wardarm.arm.link import Registers, RobotUnreachable
from wardarm.arm.player import parameters, script
from wardarm.arm.session import Phase, Session
from wardarm.arm.state import MOVING, STOPPED_STATES, PlayerState, RuntimeState, Seen, arm_state, at_rest, player_state
from wardarm.arm.status import StatusBlock, begins_held, inherit, system_went_on
from wardarm.arm.under_way import UnderWay
from wardarm.arm.wire import encode_bye, encode_discard
from wardarm.config import Config
from wardarm.gate.words import ARM_FAREWELL, OwnWord
from wardarm.processes import required_words
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, Holding, HoldReason, ProcessId, RefusalReason, Source

BEAT_REGISTER, REQUEST_REGISTER = 18, 19
REGISTER_MASK = 2**31 - 1
# A ramp takes ramp_s (about 0.3 s); a player that still moves this long after the request was withdrawn did not hear it.
LAST_RESORT_S = 1.5


class Arm:
    """Everything arm knows between two loops. `leaving`: come to rest, take nothing more."""

    def __init__(self, config: Config, log: logging.Logger) -> None:
        prefix, now_ns = config.shm.prefix, time.monotonic_ns()
        self.config, self.log = config, log
        self.leaving = False
        left = inherit(prefix)
        self.plan_epoch = left.plan_epoch + 1
        self.request_seq = left.request_seq
        # the epoch outlives restarts, so no hold's number comes twice
        self.latch = HoldLatch(left.holds, self.plan_epoch)
        went_on = system_went_on(prefix, [p for p in required_words(config) if p is not ProcessId.ARM])
        if why := begins_held(left, went_on):
            self.plan_epoch = self.latch.add(Cause(HoldReason.WATCHDOG, ProcessId.ARM, why), now_ns).seq
        self.block = StatusBlock(prefix)
        self.word = OwnWord(ProcessId.ARM, prefix, config.gate.beat_ms * 1e-3)
        self.board = Board(config)
        self.robot = RobotEvents()
        self.commands = Commands(prefix, left.command_seq)
        self.check = Check(config)
        self.server = PlayerServer(config.arm.own_address, config.arm.trajectory_port)
        self.loads = Loads()
        self.session = Session(config.arm.host, config.arm.rtde_hz, lambda: script(parameters(config)), self.server)
        self.gripper = GripperWatch(config.arm.host, config.arm.gripper_port)
        self.gripper.start()
        self.under_way = UnderWay(self.board, self.gripper, config.arm.chunk_stale_s)
        self._trajectories = TrajectoryFeed(prefix)
        self._stopping: Errand[None] = Errand()
        self.state = ArmState.OFFLINE
        self.motion_request = False
        self._to_start = False  # the player took a trajectory from rest, its state register is to follow
        self._loaded_s = 0.0  # when it was taken
        self._progress_s = 0.0  # when motion began or a trajectory was accepted under way
        self._withdrawn_s: float | None = None
        self._was_up = False
        self._player = PlayerState.READY
        self._discarded = False
        self._holding = Holding.UNKNOWN
        self.may_leave = False

    # --- reading

    def _registers(self) -> Registers | None:
        """The player's registers while it runs under this arm."""
        sample = self.session.sample
        return sample.registers if sample is not None and self.session.phase is Phase.UP else None

    def _seen(self) -> Seen:
        sample, registers = self.session.sample, self._registers()
        if sample is None or not self.session.fresh(self.board.deadline_s):
            return Seen(False, held=self.latch.blocking)
        player = player_state(registers.state) if registers is not None else None
        return Seen(
            True, sample.robot_mode, sample.safety_mode, sample.runtime_state, player,
            starting=bool(self.latch.holds) and not self.latch.blocking, held=self.latch.blocking,
        )  # fmt: skip

    def at_rest(self) -> bool:
        """actual_qd is zero and nothing plays."""
        sample = self.session.sample
        if sample is None or self.state in MOVING:
            return False
        return at_rest(sample.qd)

    # --- one loop

    def loop(self) -> None:
        now_ns = time.monotonic_ns()
        command = self.commands.read()
        self.board.read_gate()
        self.server.poll()
        self.session.step()
        self.commands.settle()
        self._stopping.take()
        seen = self._seen()
        self.state = arm_state(seen)
        self.commands.note_state(self.state)
        causes = self._causes(seen)
        if self.session.phase is Phase.UP:
            self._was_up = True
        self._latch(self.latch.see(causes, now_ns))
        if command is not None:
            stop = self.commands.carry_out(
                command, state=self.state, at_rest=self.at_rest(), latch=self.latch, link=self.session.link,
                gripper=self.gripper,
            )  # fmt: skip
            if stop is not None:
                self._latch([self.latch.add(stop, now_ns)])
            self.log.info("command", extra={"kind": int(command.data["kind"]), "seq": int(command.data["seq"]),
                          "actor": ring.text(command.data["actor"]), "refused": self.commands.reason})  # fmt: skip
        if self.leaving:
            self._withdraw()
        self.state = arm_state(self._seen())
        self._follow_player()
        self._take_trajectories()
        self._write_inputs()
        self._publish()

    def _causes(self, seen: Seen) -> list[Cause]:
        now_s = time.monotonic()
        causes = self.board.word_causes(self.leaving)
        causes += self.robot.causes(seen, self._was_up, self.session.trouble, now_s)
        dropped, registers = self.under_way.dropped(), self._registers()
        if registers is None or not seen.linked:  # old registers say nothing
            return causes
        if stray := self.board.stray_ticks(registers.ticks, self.robot.silent_s):
            causes.append(stray)
        called_off = not self.motion_request or bool(causes) or self.leaving
        if dropped is not None and not called_off:
            causes.append(dropped)
        # gate or the player stopped something that arm had not called off, for a reason that has passed already
        lost = self.under_way.permit_lost(registers, called_off or bool(dropped) or self.latch.blocking, now_s)
        if lost is not None:
            causes.append(lost)
        if seen.player is PlayerState.RUNNING and self.motion_request:
            playing = self.loads.playing(registers)
            source = playing.source if playing is not None else None
            causes += self.under_way.causes(registers, source, self._progress_s, self._holding, now_s)
        return causes

    def _latch(self, new: list[Any]) -> None:
        """Every new hold makes every plan void and withdraws the request."""
        for hold in new:
            self.plan_epoch = max(self.plan_epoch + 1, hold.seq)
            self.log.warning("hold", extra={"reason": hold.reason, "writer": hold.writer, "seq": hold.seq,
                             "detail": hold.detail, "plan_epoch": self.plan_epoch})  # fmt: skip
        if self.latch.holds:
            self._withdraw()

    def _withdraw(self) -> None:
        if self.motion_request:
            self.motion_request = False
            self._withdrawn_s = time.monotonic()

    # --- the player

    def _follow_player(self) -> None:
        registers = self._registers()
        if registers is None:
            self._player, self._to_start = PlayerState.READY, False
            self.loads.forget()
            self._withdraw()
            self._stop_what_safety_stopped()
            return
        before, self._player = self._player, player_state(registers.state)
        now = time.monotonic()
        if self._player is PlayerState.RUNNING and before is not PlayerState.RUNNING:
            self._progress_s = now
        self._take_answer(registers, now)
        if self.latch.holds or self.leaving:
            self._to_start = False
        elif self._to_start and self._player is PlayerState.LOADED:
            self._to_start, self.motion_request = False, True
            self.request_seq = (self.request_seq + 1) & 0xFFFFFFFF
        if self._player is PlayerState.READY:
            self._withdraw()  # played to its end
        timeout_s = self.config.arm.arm_timeout_s
        if self._player is PlayerState.LOADED and self.motion_request and now - self._loaded_s > timeout_s:
            waiting = self.loads.known(registers.accepted_id)
            self._refuse(waiting.id if waiting else 0, RefusalReason.NOT_READY, f"no permit for {timeout_s:g} s")
            self._withdraw()
        idle = self._player not in (PlayerState.RUNNING, PlayerState.RAMPING)
        void = self._player is PlayerState.HELD or (
            self._player is PlayerState.LOADED and not self.motion_request and not self._to_start
        )
        if void and not self._discarded and self.loads.loading is None:
            self.server.send(encode_discard())
            self._discarded = True
            self.loads.forget()
        elif not void:
            self._discarded = False
        if idle:
            self._withdrawn_s = None
        elif self._withdrawn_s is not None and now - self._withdrawn_s > LAST_RESORT_S:
            self._stop_program("the player did not come to rest")
        fingers = self.gripper.fingers
        if fingers is not None and not fingers.moving:
            self._holding = fingers.holding

    def _take_answer(self, registers: Registers, now: float) -> None:
        sample = self.session.sample
        answer = self.loads.see(registers, sample.controller_s) if sample is not None else None
        if answer is None:
            return
        sent = answer.sent
        if answer.refusal is not RefusalReason.NONE:
            late = time.monotonic() - sent.sent_s >= LOAD_DEADLINE_S
            self._refuse(sent.id, answer.refusal, "the player did not answer" if late else "the player refused it")
            return
        self.block.record["loaded_id"] = sent.id
        self.block.record["load_ms"] = answer.load_s * 1e3
        self._progress_s = now
        if sent.from_rest and sent.plan_epoch == self.plan_epoch:  # else a hold made it void while it was being loaded
            self._to_start, self._loaded_s = True, now
        self.log.debug("accepted", extra={"id": sent.id, "load_ms": round(answer.load_s * 1e3, 1)})

    def _stop_what_safety_stopped(self) -> None:
        """After a safeguard or worse the controller must not be able to go on with the program when it clears."""
        sample = self.session.sample
        if sample is not None and sample.safety_mode in STOPPED_STATES and sample.runtime_state not in (
            RuntimeState.STOPPED, RuntimeState.STOPPING,
        ):  # fmt: skip
            self._stop_program("the robot's safety stopped it")

    def _stop_program(self, why: str) -> None:
        link = self.session.link
        if link is not None and not self._stopping.busy:
            self.log.warning("program stopped", extra={"why": why})
            self._stopping.start("stop program", link.dashboard.stop_program)

    def _take_trajectories(self) -> None:
        """Everything that postproc has published since the last loop: to the player, or refused."""
        for trajectory in self._trajectories.new():
            trajectory_id = int(trajectory["id"])
            try:
                sent, message = self._prepare(trajectory)
                if not self.server.send(message):
                    raise Refused(RefusalReason.NOT_READY, "the player's connection is gone")
                self.loads.sent(sent)
            except Refused as e:
                self._refuse(trajectory_id, e.reason, e.detail)

    def _prepare(self, trajectory: Any) -> tuple[Sent, bytes]:
        """Raises Refused."""
        sample, registers = self.session.sample, self._registers()
        if sample is None or registers is None or self.leaving:
            raise Refused(RefusalReason.NOT_READY, f"the arm is {self.state.name}")
        playing = self.loads.playing(registers)
        age_s = (time.monotonic_ns() - sample.stamp_ns) * 1e-9
        now = ArmNow(
            state=self.state, plan_epoch=self.plan_epoch, playing_id=playing.id if playing is not None else 0,
            path_s=registers.path_s + age_s, load_s=self.loads.load_s(int(trajectory["knot_count"])),
            loading=self.loads.loading is not None, actual_q=np.array(sample.q), target_q=np.array(sample.target_q),
            start_tolerance_rad=self.config.arm.start_tolerance_rad,
            playing_knots=playing.knots if playing is not None else None,
        )  # fmt: skip
        began = time.perf_counter()
        try:
            knots, message = checked(trajectory, now, self.check)
        finally:
            self.block.record["check_ms"] = (time.perf_counter() - began) * 1e3
        source = Source.SCRIPTED if int(trajectory["source"]) == Source.SCRIPTED else Source.MODEL
        from_rest = not int(trajectory["join_trajectory_id"])
        sent_s, epoch = time.monotonic(), self.plan_epoch
        return Sent(int(trajectory["id"]), knots, source, from_rest, sent_s, sample.controller_s, epoch), message

    def _refuse(self, trajectory_id: int, reason: RefusalReason, detail: str) -> None:
        self.block.record["refused_id"], self.block.record["refusal"] = trajectory_id, reason
        self.log.info("refused", extra={"id": trajectory_id, "reason": reason, "detail": detail})

    # --- what goes out

    def _write_inputs(self) -> None:
        link = self.session.link
        if link is None or self.session.sample is None:
            return
        try:
            link.set_input(REQUEST_REGISTER, self.request_seq & REGISTER_MASK if self.motion_request else 0)
            if self.session.phase in (
                Phase.CALLING,
                Phase.UP,
            ):  # an earlier arm's player gets no beat: it comes to rest
                link.set_input(BEAT_REGISTER, self.board.gate.beat & REGISTER_MASK)
        except RobotUnreachable as e:
            self.session.lose(str(e))

    def _publish(self) -> None:
        record, sample, registers = self.block.record, self.session.sample, self._registers()
        self.state = arm_state(self._seen())
        if sample is not None:
            record["stamp_ns"], record["controller_s"] = sample.stamp_ns, sample.controller_s
            record["q_rad"], record["qd_rad_s"] = sample.q, sample.qd
            record["target_q_rad"], record["target_qd_rad_s"] = sample.target_q, sample.target_qd
            record["tcp_pose"], record["speed_scaling"] = sample.tcp_pose, sample.speed_scaling
            record["robot_mode"] = max(sample.robot_mode, 0)
            record["safety_mode"], record["runtime_state"] = sample.safety_mode, sample.runtime_state
        playing = None
        if registers is not None:
            playing = self.loads.playing(registers)
            finished = self.loads.known(registers.finished_id)
            if finished is not None:
                record["finished_id"] = finished.id
            record["permit_edge_cycle"], record["permit_accept_cycle"] = (
                registers.permit_edge_cycle,
                registers.permit_accept_cycle,
            )
            record["first_motion_cycle"], record["grip_target"] = registers.first_motion_cycle, registers.opening
        record["playing_id"] = playing.id if playing is not None else 0
        record["path_s"] = registers.path_s if registers is not None and playing is not None else 0.0
        record["path_rate"] = registers.path_rate if registers is not None and playing is not None else 0.0
        record["path_duration_s"] = playing.duration_s if playing is not None else 0.0
        record["state"], record["plan_epoch"] = self.state, self.plan_epoch
        record["at_rest"], record["motion_request"] = self.at_rest(), self.motion_request
        record["request_seq"] = self.request_seq
        fingers = self.gripper.fingers
        if fingers is not None:
            record["grip_opening"], record["grip_moving"] = fingers.opening, fingers.moving
        known = fingers is not None and fingers.fresh(time.monotonic_ns())
        record["holding"] = fingers.holding if known and fingers is not None else Holding.UNKNOWN
        record["command_seq"], record["command_result"] = self.commands.seq, self.commands.result
        self.block.set_text("command_reason", self.commands.reason)
        if self.session.link is not None:
            self.block.set_text("robot_serial", self.session.link.dashboard.serial)
            self.block.set_text("robot_version", self.session.link.dashboard.version)
        self.block.set_holds(self.latch.holds)
        self.block.publish()
        self._say_word()
        self.may_leave = self.state is ArmState.OFFLINE or (self.state is not ArmState.LOADED and self.at_rest())

    def _say_word(self) -> None:
        ready = self.state in (ArmState.READY, ArmState.LOADED, *MOVING) and not self.latch.holds and not self.leaving
        if ready:
            self.word.say(True)
        elif self.latch.holds:
            first = self.latch.holds[0]
            self.word.say(False, first.reason, first.detail)
        else:
            trouble = "arm is ending" if self.leaving else self.session.trouble or f"the arm is {self.state.name}"
            self.word.say(False, HoldReason.STARTING, trouble)

    def farewell(self) -> None:
        """Bye to the player if the arm is at rest, a last status, nothing to the fingers."""
        self._withdraw()
        if self.may_leave and self.server.connected:
            self.server.send(encode_bye())
            self.server.wait_sent(0.2)
        self.latch.holds = []  # of a system that ends; one that goes on without arm has the next one begin with a hold
        record = self.block.record
        record["state"], record["motion_request"], record["playing_id"] = ArmState.OFFLINE, False, 0
        self.block.set_holds([])
        self.block.publish()
        self.word.say(False, HoldReason.STARTING, ARM_FAREWELL)
        self.gripper.stop()
