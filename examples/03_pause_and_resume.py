"""Pause, look at what holds the arm, and resume after a person has agreed.

python examples/03_pause_and_resume.py [ADDRESS STOP_ADDRESS] [--yes]
"""

from __future__ import annotations

import sys
import time

from wardarm.client import ADDRESS, STOP_ADDRESS, Client, Refused

arguments = [a for a in sys.argv[1:] if a != "--yes"]
address, stop_address = arguments if len(arguments) == 2 else (ADDRESS, STOP_ADDRESS)

with Client(address, stop_address, name="example 03") as bedside:
    bedside.pause("visit")  # no lease, a listener of its own
    while not all(h.latched and h.motion_confirmed_stopped for h in bedside.state().holds):
        time.sleep(0.05)
    holds = bedside.state().holds
    for hold in holds:
        print(f"{hold.text_zh}\n{hold.text_en}\n")
    if "--yes" not in sys.argv and input("Looked at the bedside? Resume? [y/N] ") != "y":
        raise SystemExit(1)
    try:
        with bedside.lease() as lease:
            answer = bedside.resume([h.token for h in holds], lease)
    except Refused as refused:
        if refused.reason != "LEASE_HELD":
            raise
        answer = bedside.resume([h.token for h in holds])  # another client watches over the task: it goes on as its own
    print(f"{answer.text_zh}  {answer.text_en}")
