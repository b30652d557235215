"""The fault matrix: every process and device x what befalls it x when, on one running simulated system.

python -m wardarm.sim.matrix --out out/prove --minutes 80
"""
