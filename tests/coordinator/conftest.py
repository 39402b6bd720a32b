"""How property tests of coordinators run: judged by what they find, not by how busy the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("coordinators", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("coordinators")
