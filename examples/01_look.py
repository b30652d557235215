"""Look at the bedside: no lease needed, nothing moves.

python examples/01_look.py [ADDRESS]
"""

from __future__ import annotations

import sys

from wardarm.client import ADDRESS, Client
from wardarm.v1 import state_pb2, task_pb2

with Client(sys.argv[1] if len(sys.argv) > 1 else ADDRESS, name="example 01") as bedside:
    info = bedside.info()
    print(f"wardarm {info.version}, {'simulated' if info.simulated else 'real'} bedside, model {info.model.name}")
    print(f"it has learnt: {', '.join(task_pb2.StepKind.Name(k) for k in info.model.learnt) or 'not known yet'}")

    check = bedside.check("把桌角的蓝色水杯拿给我")
    for step in check.steps:
        print(f"would be done: {step.object} {step.color} {step.place}; the model gets: {step.model_text}")

    refused = bedside.check("今天天气怎么样").refusal
    print(f"refused: {refused.reason}, {refused.text_en} Try: {', '.join(refused.say_instead)}")

    for number, state in enumerate(bedside.watch(period_s=0.5), 1):
        holds = ", ".join(h.text_en for h in state.holds) or "nothing holds the arm"
        print(f"{state_pb2.ArmState.Name(state.arm.state)}: {holds}")
        if number == 3:
            break
