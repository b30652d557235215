"""`robot_state` inside a network (PyTorch): normalised position and angles, and the rotation as six numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wardarm.policy import contract


class StateReader(nn.Module):  # type: ignore[misc]
    """robot_state (B, 8), FP32 -> normalised position (B, 3), normalised roll pitch yaw (B, 3), two columns (B, 6) of the
    rotation relative to tool-down.

    The rotation vector goes through its matrix (Rodrigues): at tool-down the angle is pi, where the vector and its
    negative are the same rotation.
    """

    def __init__(self) -> None:
        super().__init__()
        for name, values in (("low", contract.LOW), ("high", contract.HIGH), ("tool_down", contract.TOOL_DOWN)):
            self.register_buffer(name, torch.tensor(values), persistent=False)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        low, high, tool_down = (b.to(state.dtype) for b in (self.low, self.high, self.tool_down))
        position = (state[:, :3] - low) / (high - low) * 2 - 1
        vector = state[:, 3:6]
        angle = (vector * vector).sum(-1).clamp(min=1e-12).sqrt()
        x, y, z = (vector / angle[:, None]).unbind(-1)
        c, s = angle.cos(), angle.sin()
        t = 1 - c
        rotation = torch.stack(
            [c + x * x * t, x * y * t - z * s, x * z * t + y * s,
             x * y * t + z * s, c + y * y * t, y * z * t - x * s,
             x * z * t - y * s, y * z * t + x * s, c + z * z * t], -1,
        ).unflatten(-1, (3, 3))  # fmt: skip
        relative = rotation @ tool_down.T
        yaw = torch.atan2(relative[:, 1, 0], relative[:, 0, 0])
        pitch = torch.asin((-relative[:, 2, 0]).clamp(-0.999, 0.999))
        roll = torch.atan2(relative[:, 2, 1], relative[:, 2, 2])
        angles = torch.stack([roll, pitch, yaw], -1) / contract.ANGLE_SCALE_RAD
        return position, angles, relative[:, :, :2].transpose(1, 2).flatten(1)
