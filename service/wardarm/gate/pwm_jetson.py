"""The real PWM: Jetson.GPIO on one of the Thor's PWM pins. Imported only on a Jetson, only by gate."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from pathlib import Path

from wardarm.gate import sysfs
from wardarm.gate.sysfs import PwmUnavailable

_GPIO_CHIP = Path("/dev/gpiochip0")  # Jetson.GPIO refuses to be imported without write access to it


class JetsonPwm:
    """`pin` is a BOARD number. Switching off goes straight to the kernel, never through the library.

    Raises PwmUnavailable within about two seconds if the pin cannot be driven.
    """

    def __init__(self, pin: int, frequency_hz: float, duty_percent: float) -> None:
        self._pin, self._duty_percent = pin, duty_percent
        self._line = sysfs.export(pin)
        self._enable_fd = os.open(self._line / "enable", os.O_WRONLY | os.O_CLOEXEC)
        self.off()
        if not os.access(_GPIO_CHIP, os.W_OK):
            raise PwmUnavailable(
                f"pin {pin}: {_GPIO_CHIP} is not there or not writable; run gate as root or as a member of group 'gpio'"
            )
        try:
            import Jetson.GPIO as GPIO

            self._gpio = GPIO
            GPIO.setwarnings(False)
            GPIO.setmode(GPIO.BOARD)
            self._pwm = GPIO.PWM(pin, frequency_hz)
        except Exception as e:  # the library raises bare Exception, RuntimeError, ValueError and OSError
            self.off()
            raise PwmUnavailable(
                f"pin {pin}: Jetson.GPIO says: {e}; is this a Jetson AGX Thor that Jetson.GPIO knows?"
            ) from e

    def on(self) -> int:
        try:
            self._pwm.start(self._duty_percent)
            now = time.monotonic_ns()
            if not sysfs.is_enabled(self._line):
                raise PwmUnavailable(f"pin {self._pin}: {self._line / 'enable'} reads 0 after it was switched on")
            return now
        except OSError as e:
            self.off()
            raise PwmUnavailable(
                f"pin {self._pin}: {self._line}: {e.strerror}; see docs/wiring.md, 'Before the first start'"
            ) from e

    def off(self) -> int:
        with contextlib.suppress(OSError):  # `pwm_off` tries again when gate ends
            os.pwrite(self._enable_fd, b"0", 0)
        return time.monotonic_ns()

    def renew(self) -> None:
        """Nothing to say again: the kernel keeps the state."""

    def close(self) -> None:
        """Off, and no `PWM.__del__` at interpreter shutdown, where it fails and leaves the PWM as it is."""
        self.off()
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._pwm.stop()
            self._gpio.cleanup(self._pin)
        self.off()
