"""Pictures of the world without a window: one GL context, many views.

EGL works on a GPU and, with Mesa, on a plain CPU; OSMesa is the fallback (MUJOCO_GL=osmesa asks for it).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

D455_GROUPS = (0, 2, 4)
DRESSED_GROUPS = (0, 1, 2)
DRESSED_AMBIENT = 0.34
"""Light that a room's white walls give back, for the dressed views. The D455's picture has none: so it was trained."""
_LAMPS_GIVE = 1.1
"""What the walls give back the lamps have less of, so that nothing white is blown out."""
_HEADLIGHT_AMBIENT = 0.1  # MuJoCo's default


class NoRenderer(RuntimeError):
    """Neither EGL nor OSMesa can draw here; the text says what to install."""


def _gl_context(width: int, height: int) -> Any:
    tried = []
    for name in ("egl", "osmesa") if os.environ.get("MUJOCO_GL") != "osmesa" else ("osmesa",):
        try:
            if name == "egl":
                from mujoco.egl import GLContext
            else:
                from mujoco.osmesa import GLContext
            return GLContext(width, height)
        except (ImportError, AttributeError, RuntimeError) as e:
            tried.append(f"{name}: {e}")
    raise NoRenderer(f"cannot draw pictures ({'; '.join(tried)}); apt install libegl1 libgl1-mesa-dri, or libosmesa6")


class Renderer:
    """Draws views of one model. Not to be shared between threads."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self.gl = _gl_context(model.vis.global_.offwidth, model.vis.global_.offheight)
        self.gl.make_current()
        self.context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.context)

    def close(self) -> None:
        self.context.free()
        self.gl.free()


class View:
    """One camera of a renderer: what it sees, how large, into its own buffers.

    `rgb` is uint8 height x width x 3; `depth` float32 height x width in m along the optical axis; both top row
    first, valid until the next `draw`.
    """

    def __init__(
        self,
        renderer: Renderer,
        camera: str,
        width: int,
        height: int,
        groups: Sequence[int],
        shadows: bool = False,
        ambient: float = 0.0,
    ) -> None:
        """`ambient`: how much of the light comes from everywhere instead of from the lamps, 0..0.9."""
        self.renderer, self.width, self.height, self._ambient = renderer, width, height, ambient
        model = renderer.model
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(camera).id
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = [int(i in groups) for i in range(len(self._option.geomgroup))]
        self._option.sitegroup[:] = 0
        self._perturb = mujoco.MjvPerturb()
        self._scene = mujoco.MjvScene(model, maxgeom=600)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = int(shadows)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._rgb = np.zeros((height, width, 3), np.uint8)
        self._depth = np.zeros((height, width), np.float32)

    def draw(self, data: mujoco.MjData, depth: bool = False) -> NDArray[np.uint8]:
        """Render; returns `rgb`. With `depth` the depth buffer is read too."""
        r = self.renderer
        mujoco.mjv_updateScene(
            r.model, data, self._option, self._perturb, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        if self._ambient:
            lamps = self._scene.lights[: self._scene.nlight]
            headlight = np.asarray(lamps[0].ambient)
            lamps[0].ambient[:] = headlight * (1 + self._ambient / _HEADLIGHT_AMBIENT)  # dims with the room
            for lamp in lamps:
                lamp.diffuse[:] = np.asarray(lamp.diffuse) * (1 - _LAMPS_GIVE * self._ambient)
        mujoco.mjr_render(self._rect, self._scene, r.context)
        mujoco.mjr_readPixels(self._rgb, self._depth if depth else None, self._rect, r.context)
        return self.rgb

    @property
    def rgb(self) -> NDArray[np.uint8]:
        return self._rgb[::-1]

    def depth_m(self, step: int = 1) -> NDArray[np.float32]:
        """Depth of the last `draw(depth=True)`, every `step`-th pixel, m."""
        extent = self.renderer.model.stat.extent
        near = np.float32(self.renderer.model.vis.map.znear * extent)
        far = np.float32(self.renderer.model.vis.map.zfar * extent)
        raw = self._depth[::-1][::step, ::step]
        return near / (1 - raw * (1 - near / far))
