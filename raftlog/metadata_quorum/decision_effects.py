"""Whether a controller's decisions took effect, as the images that it applies show.

A controller may lose its leadership while a decision is being committed. It goes on applying the log as a standby, and
the log decides. The decision took effect if its last command was applied in its own controller epoch. It never will
once a later epoch has begun, because replay ignores commands of earlier epochs.
"""

from __future__ import annotations

import asyncio

from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import ControllerEpoch

Effect = asyncio.Future[bool]
"""True: the decision took effect. False: it never will. Not done: neither is known yet."""


class DecisionEffects:
    """The decisions of one controller that are neither applied nor void."""

    def __init__(self) -> None:
        self._pending: dict[tuple[ControllerEpoch, int], Effect] = {}

    def expect(self, epoch: ControllerEpoch, sequence: int) -> Effect:
        """Return the effect of a decision; call it before the decision is proposed.

        Args:
            sequence: the sequence of the decision's last command.
        """
        effect: Effect = asyncio.get_running_loop().create_future()
        self._pending[epoch, sequence] = effect
        effect.add_done_callback(lambda _: self._pending.pop((epoch, sequence), None))
        return effect

    def applied(self, image: MetadataImage) -> None:
        """Settle the decisions that the newest image shows. Call it after each entry of the log."""
        for (epoch, sequence), effect in tuple(self._pending.items()):
            if effect.done():
                continue
            if image.controller_epoch > epoch:
                effect.set_result(False)
            elif image.controller_epoch == epoch and image.last_sequence >= sequence:
                effect.set_result(True)

    def skipped(self, image: MetadataImage) -> None:
        """Forget the decisions of earlier epochs: a snapshot replaced the entries that would show their effect."""
        for (epoch, _), effect in tuple(self._pending.items()):
            if image.controller_epoch != epoch:
                effect.cancel()
        self.applied(image)
