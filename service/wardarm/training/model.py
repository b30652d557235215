"""The policy network (PyTorch): picture, sentence and planned state in, a chunk of 64 points out.

How it aims: where a piece of the kind and colour said stands is told outright (grounding.py); that and the sentence steer
the picture's features; two soft-argmaxes over cells of the table plane say where the
piece meant stands and where it goes (a spot beside something, a vessel, the mat; or the hand-over pose, which is
fixed); the points are the planned state plus offsets plus weights towards that grasp and towards that goal. So point 0
is the planned state exactly, and far points are as exact as the two. Yaw goes in and out as sine and cosine of its
double, for the fingers are alike. A dark picture is brightened (gamma 2.2) inside the graph, in training as in use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from wardarm.policy import contract
from wardarm.training.expert import POUR_PITCH_RAD
from wardarm.training.grounding import MARKS, Heard, Listener, Match, Spotted, Spotter, log_of, match
from wardarm.training.layers import (
    DecoderLayer,
    EncoderLayer,
    Residual,
    convolution,
    fourier,
    fourier_width,
    full_precision,
    mlp,
    upsample,
)
from wardarm.training.state import StateReader

POOL = 4
"""720p is averaged 4 x 4 inside the graph: 320 x 180, the size of the training pictures."""
_FINE, _COARSE = 8, 16
"""Pixels of the small picture per cell."""
_CELL_Z_M = 0.03
"""A cell stands for the point of its ray at this height: the middle of low tableware."""
_BANDS, _NEAR_BANDS = 7, 9
_MASKED = -1e4
_OFFSET_SCALE = 0.1
_POUR_PITCH = POUR_PITCH_RAD / contract.ANGLE_SCALE_RAD
_ROTATION_WIDTH, _GRIP_WIDTH = 6, 2
DARK, BRIGHT = 0.16, 0.24
"""Mean of a picture (0..1) below which it is brightened whole, above which not at all."""
GAMMA = 2.2
_RARELY = -6.0
"""Logit of a cell's presence to begin with: one cell in several hundred has the piece meant."""


@dataclass(frozen=True)
class Size:
    """4.5 M parameters as it stands, 1 M of them the vocabulary."""

    vocabulary: int = 8000
    width: int = 128
    heads: int = 4
    channels: tuple[int, int, int] = (24, 48, 96)
    context: int = 8
    text_layers: int = 2
    joint_layers: int = 3
    look_layers: int = 2
    point_layers: int = 2
    height: int = contract.IMAGE_HEIGHT // POOL
    image_width: int = contract.IMAGE_WIDTH // POOL


class Output(NamedTuple):
    """traj (B, 64, 6) normalised; logits: grip (B, 64), valid (B,), done (B,), cell (B, cells): which cell the piece meant
    is in if it is there; presence (B, cells, 2): whether this cell has it, and has the goal; grasp (B, 3) normalised
    x y z; yaw2 (B, 2) sin and cos of twice the grasp yaw; goal_cell, goal (B, 3): the same for where it goes;
    placing, tilting (B,) logits: the goal is a spot to be found; it is leant over; heard, spotted: grounding.py."""

    traj: Tensor
    grip: Tensor
    valid: Tensor
    done: Tensor
    cell: Tensor
    grasp: Tensor
    yaw2: Tensor
    presence: Tensor
    goal_cell: Tensor
    goal: Tensor
    placing: Tensor
    tilting: Tensor
    heard: Heard
    spotted: Spotted


def cells(pixels: int, stride: int) -> int:
    return -(-pixels // stride)


def table_grid(height: int, width: int, stride: int) -> Tensor:
    """Normalised x, y of each cell's point at _CELL_Z_M, (rows * columns, 2), for the contract's camera."""
    position, rotation = contract.camera_pose()
    focal = 0.5 * height / math.tan(math.radians(contract.CAMERA_FOVY_DEG) / 2)
    v, u = np.meshgrid(
        (np.arange(cells(height, stride)) + 0.5) * stride,
        (np.arange(cells(width, stride)) + 0.5) * stride,
        indexing="ij",
    )
    rays = np.stack([(u - width / 2) / focal, (v - height / 2) / focal, np.ones_like(u)], -1) @ rotation.T
    reach = (_CELL_Z_M - position[2]) / np.minimum(rays[..., 2], -0.12)  # rays at the horizon end far away, not nowhere
    points = position + reach[..., None] * rays
    six = np.concatenate([points, np.zeros_like(points)], -1)
    return torch.tensor(np.clip(contract.normalise(six)[..., :2], -2, 2), dtype=torch.float32).reshape(-1, 2)


def brightened(x: Tensor) -> Tensor:
    """Pictures (B, 3, H, W) in [-1, 1]; dark ones with gamma 2.2, those between DARK and BRIGHT partly."""
    light = ((x.float() + 1) / 2).clamp(1e-3, 1)
    share = ((BRIGHT - light.mean((1, 2, 3), keepdim=True)) / (BRIGHT - DARK)).clamp(0, 1)
    lifted = 2 * light ** (1 / GAMMA) - 1
    return torch.where(share > 0, x.float() + share * (lifted - x.float()), x.float()).to(x.dtype)


class Policy(nn.Module):  # type: ignore[misc]
    def __init__(self, size: Size | None = None) -> None:
        super().__init__()
        self.size = s = size or Size()
        width, (c1, c2, c3) = s.width, s.channels
        self.rows, self.columns = cells(s.height, _FINE), cells(s.image_width, _FINE)
        self.coarse_rows, self.coarse_columns = cells(s.height, _COARSE), cells(s.image_width, _COARSE)
        for name, values in (
            ("fine_grid", table_grid(s.height, s.image_width, _FINE)),
            ("coarse_grid", table_grid(s.height, s.image_width, _COARSE)),
            ("hand_over", _normalised(contract.HAND_OVER_M)),
        ):
            self.register_buffer(name, values, persistent=False)
        self.read_state = StateReader()
        # sentence
        self.words = nn.Embedding(s.vocabulary, width)
        nn.init.normal_(self.words.weight, std=0.3)
        self.word_places = nn.Parameter(torch.randn(1, contract.TOKENS, width) * 0.02)
        self.text_layers = nn.ModuleList(EncoderLayer(width, s.heads) for _ in range(s.text_layers))
        self.text_norm = nn.LayerNorm(width)
        self.listener = Listener(width, s.heads)
        # picture
        self.stem = nn.Sequential(nn.PixelUnshuffle(2), convolution(12, c1, 1))
        self.shrink = nn.Sequential(convolution(c1, c2, 2), Residual(c2), Residual(c2), convolution(c2, c3, 2))
        self.spotter = Spotter(c3, width)
        self.mark_steered, self.mark_fine = nn.Conv2d(MARKS, c3, 1), nn.Linear(MARKS, width)
        self.steered = nn.ModuleList(Residual(c3, width) for _ in range(2))
        self.to_fine, self.to_coarse = nn.Conv2d(c3, width, 1), nn.Conv2d(c3, width, 3, 2, 1)
        self.fine_place = nn.Linear(fourier_width(2, _BANDS), width)
        self.coarse_place = nn.Linear(fourier_width(2, _BANDS), width)
        self.coarse_bias = nn.Parameter(torch.randn(1, self.coarse_rows * self.coarse_columns, width) * 0.02)
        # state, and all together
        self.state = mlp(fourier_width(3, _BANDS) + _ROTATION_WIDTH + _GRIP_WIDTH, 2 * width, width)
        self.context = nn.Parameter(torch.randn(1, s.context, width) * 0.1)
        self.joint_layers = nn.ModuleList(EncoderLayer(width, s.heads) for _ in range(s.joint_layers))
        self.back_to_fine = nn.Linear(width, width)
        self.look_layers = nn.ModuleList(DecoderLayer(width, s.heads) for _ in range(s.look_layers))
        # where to grasp
        self.cell_query, self.cell_key, self.cell_norm = (
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.LayerNorm(width),
        )
        self.cell_offset = mlp(width, width, 4)
        self.presence = mlp(width, width, 2)
        nn.init.constant_(self.presence[-1].bias, _RARELY)
        self.trust = nn.Parameter(torch.ones(1))  # in the agreement of a cell with the sentence
        self.grasp_height = nn.Linear(width, 1)
        # where to bring it: another query over the same cells
        self.goal_query, self.goal_key = nn.Linear(width, width), nn.Linear(width, width)
        self.goal_offset = mlp(width, width, 2)
        self.goal_height, self.goal_kind = nn.Linear(width, 1), nn.Linear(width, 2)
        aims = 2 * (fourier_width(3, _BANDS) + fourier_width(3, _NEAR_BANDS))
        self.aim = mlp(aims + 4, 2 * width, width)
        # the chunk
        self.point_queries = nn.Parameter(torch.randn(1, contract.HORIZON, width) * 0.1)
        self.turn_queries = nn.Parameter(torch.randn(1, contract.HORIZON, width) * 0.1)
        self.point_layers = nn.ModuleList(DecoderLayer(width, s.heads) for _ in range(s.point_layers))
        self.turn_layers = nn.ModuleList(DecoderLayer(width, s.heads) for _ in range(s.point_layers))
        self.turn_from_points = DecoderLayer(width, s.heads)
        self.point_norm, self.turn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.point_head = nn.Linear(width, 9)  # offset xyz; weights (grasp, goal) for each of xyz
        self.turn_head = nn.Linear(
            width, 7
        )  # tilt, yaw offset, grip, yaw towards the grasp, yaw kept, pitch kept, pitch to the goal's
        self.valid_head, self.done_head = mlp(width + 10, width, 1), nn.Linear(width, 1)
        for head in (self.point_head, self.turn_head):
            nn.init.normal_(head.weight, std=0.01)
            nn.init.zeros_(head.bias)

    def _read_sentence(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Heard]:
        """Tokens (B, T) -> features (B, T, width), of the whole (B, width), score bias (B, T), what is said."""
        present = mask.to(self.word_places.dtype)
        bias = (1 - present) * _MASKED
        text = self.words(ids) + self.word_places[:, : ids.shape[1]]
        for layer in self.text_layers:
            text = layer(text, bias[:, None, None])
        text = self.text_norm(text)
        mean = (text * present[..., None]).sum(1) / present.sum(1, keepdim=True).clamp(min=1)
        heard, listened = self.listener(text, bias)
        return text, mean + listened, bias, heard

    def _read_picture(self, image: Tensor, sentence: Tensor, heard: Heard) -> tuple[Tensor, Tensor, Spotted, Match]:
        """uint8 (B, H, W, 3) at either size, or prepared float (B, 3, H, W) -> fine and coarse cells, what stands where, and
        how that agrees with what is said."""
        x = image
        if image.dtype == torch.uint8:
            x = image.to(self.word_places.dtype).permute(0, 3, 1, 2) / 127.5 - 1
        if x.shape[2] == POOL * self.size.height:
            x = functional.avg_pool2d(x, POOL)
        x = brightened(x)
        x, spotted = self.spotter(self.shrink(self.stem(x)))
        found = match(heard, spotted)
        x = x + self.mark_steered(found.marks.unflatten(-1, (self.rows, self.columns)))
        for block in self.steered:
            x = block(x, sentence)
        fine = self.to_fine(x).flatten(2).transpose(1, 2) + self.fine_place(fourier(self.fine_grid, _BANDS))[None]
        fine = fine + self.mark_fine(found.marks.transpose(1, 2))
        coarse = self.to_coarse(x).flatten(2).transpose(1, 2) + self.coarse_bias
        return fine, coarse + self.coarse_place(fourier(self.coarse_grid, _BANDS))[None], spotted, found

    def _find_grasp(self, context: Tensor, cell: Tensor, found: Match) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores of the cells, the grasp point (normalised), sin and cos of twice its yaw, presence in each cell."""
        offset = self.cell_offset(cell)
        scores = (self.cell_query(context[:, :1].float()) @ self.cell_key(cell).transpose(1, 2))[:, 0]
        scores = scores / math.sqrt(cell.shape[-1]) + self.trust * log_of(found.agreed[:, 0])
        share = scores.softmax(-1)[..., None]
        xy = (share * (self.fine_grid[None] + _OFFSET_SCALE * offset[..., :2])).sum(1)
        grasp = torch.cat([xy, self.grasp_height(context[:, 0].float())], -1)
        return scores, grasp, (share * offset[..., 2:]).sum(1), self.presence(cell)

    def _find_goal(self, context: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of the cells, the goal (normalised: a spot that was found, or the hand-over pose), kind logits (B, 2)."""
        said = context[:, 1].float()
        scores = (self.goal_query(said[:, None]) @ self.goal_key(cell).transpose(1, 2))[:, 0]
        scores = scores / math.sqrt(cell.shape[-1])
        share = scores.softmax(-1)[..., None]
        xy = (share * (self.fine_grid[None] + _OFFSET_SCALE * self.goal_offset(cell))).sum(1)
        kind = self.goal_kind(said)
        spot = torch.cat([xy, self.goal_height(said)], -1)
        placing = kind[:, :1].sigmoid().detach()
        return scores, placing * spot + (1 - placing) * self.hand_over, kind

    def forward(self, image: Tensor, ids: Tensor, mask: Tensor, state: Tensor) -> Output:
        """`ids` and `mask` may be shorter than 128."""
        with full_precision(state):
            position, angles, columns = self.read_state(state.float())
            features = torch.cat([fourier(position, _BANDS), columns, state.float()[:, 6:8]], -1)
        text, sentence, text_bias, heard = self._read_sentence(ids, mask)
        fine, coarse, spotted, found = self._read_picture(image, sentence, heard)
        now = self.state(features)
        context = self.context + (sentence + now)[:, None]
        n, m = context.shape[1], coarse.shape[1]
        joint = torch.cat([context.to(coarse.dtype), coarse, text.to(coarse.dtype)], 1)
        bias = torch.cat([torch.zeros_like(text_bias[:, :1]).expand(-1, n + m), text_bias], 1)[:, None, None]
        for layer in self.joint_layers:
            joint = layer(joint, bias)
        context = joint[:, :n]
        seen = self.back_to_fine(joint[:, n : n + m]).transpose(1, 2)
        seen = seen.unflatten(-1, (self.coarse_rows, self.coarse_columns))
        fine = fine + upsample(seen, self.rows, self.columns).flatten(2).transpose(1, 2)
        for layer in self.look_layers:
            context = layer(context, fine)
        with full_precision(fine):
            cell = self.cell_norm(fine.float())
            scores, grasp, yaw2, presence = self._find_grasp(context, cell, found)
            goal_scores, goal, kind = self._find_goal(context, cell)
            # detached: through the high frequencies the grasp height would diverge
            parts = [yaw2.detach(), kind.detach().sigmoid()]
            for point in (grasp.detach(), goal.detach()):
                parts += [fourier(point, _BANDS), fourier(2 * (point - position), _NEAR_BANDS)]
            aim = self.aim(torch.cat(parts, -1))
        context = context + (now + aim)[:, None]
        tilt = kind[:, 1].sigmoid().detach() * _POUR_PITCH
        traj, grip = self._chunk(context, position, angles, grasp, yaw2, goal, tilt)
        with full_precision(grasp):
            seen = torch.cat([presence.amax(1), presence.logsumexp(1), found.summary], -1)
            valid = self.valid_head(torch.cat([context[:, -1].float(), seen], -1))
            done = self.done_head(context[:, -2].float())
        return Output(
            traj,
            grip,
            valid[:, 0],
            done[:, 0],
            scores,
            grasp,
            yaw2,
            presence,
            goal_scores,
            goal,
            kind[:, 0],
            kind[:, 1],
            heard,
            spotted,
        )

    def _chunk(
        self, context: Tensor, position: Tensor, angles: Tensor, grasp: Tensor, yaw2: Tensor, goal: Tensor, tilt: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`goal` (B, 3) and the pitch there (B,), normalised. Returns traj and grip logits."""
        batch = context.shape[0]
        points, turns = self.point_queries.expand(batch, -1, -1), self.turn_queries.expand(batch, -1, -1)
        for layer in self.point_layers:
            points = layer(points, context)
        turns = self.turn_from_points(turns, points)
        for layer in self.turn_layers:
            turns = layer(turns, context)
        with full_precision(grasp):
            p, t = self.point_head(self.point_norm(points.float())), self.turn_head(self.turn_norm(turns.float()))
            weight = p[..., 3:].unflatten(-1, (3, 2))
            xyz = position[:, None] + p[..., :3] * _OFFSET_SCALE
            xyz = xyz + weight[..., 0] * (grasp - position)[:, None] + weight[..., 1] * (goal - position)[:, None]
            goal_yaw = (torch.atan2(yaw2[:, :1], yaw2[:, 1:]) / (2 * contract.ANGLE_SCALE_RAD)).detach()
            roll = angles[:, None, :1] * (1 + t[..., 0:1])
            pitch = angles[:, None, 1:2] * (1 + t[..., 5:6]) + t[..., 6:7] * (tilt[:, None] - angles[:, 1:2])[:, None]
            yaw = angles[:, None, 2:] * (1 + t[..., 4:5]) + t[..., 1:2] * _OFFSET_SCALE
            yaw = yaw + t[..., 3:4] * (goal_yaw - angles[:, 2:])[:, None]
            later = torch.cat([xyz, roll, pitch, yaw], -1)[:, 1:]
            return torch.cat([torch.cat([position, angles], -1)[:, None], later], 1), t[..., 2]


def _normalised(xyz_m: tuple[float, float, float]) -> Tensor:
    six = np.array([*xyz_m, 0.0, 0.0, 0.0])
    return torch.tensor(contract.normalise(six)[:3], dtype=torch.float32)


def parameters_million(network: nn.Module) -> float:
    return float(sum(p.numel() for p in network.parameters())) / 1e6
