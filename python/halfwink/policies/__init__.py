"""Policies of your own as Python classes, one module for each family (`docs/own-policy.md`)."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.policies.circuits import Circuits
    from halfwink.policies.completion import Completion
    from halfwink.policies.gating import Gating
    from halfwink.policies.offload import Offload
    from halfwink.policies.policy import MS as MS
    from halfwink.policies.policy import NS as NS
    from halfwink.policies.policy import US as US
    from halfwink.policies.policy import Parameter, Policy
    from halfwink.policies.policy import S as S
    from halfwink.policies.preheat import Preheat
    from halfwink.policies.scaling import Scaling
    from halfwink.policies.segregation import Segregation
    from halfwink.policies.steering import Steering

__all__ = [
    "Circuits",
    "Completion",
    "Gating",
    "Offload",
    "Parameter",
    "Policy",
    "Preheat",
    "Scaling",
    "Segregation",
    "Steering",
]
#: Module of each name, and of the units of time.
_HOMES = {
    "Circuits": "policies.circuits",
    "Completion": "policies.completion",
    "Gating": "policies.gating",
    "MS": "policies.policy",
    "NS": "policies.policy",
    "Offload": "policies.offload",
    "Parameter": "policies.policy",
    "Policy": "policies.policy",
    "Preheat": "policies.preheat",
    "S": "policies.policy",
    "Scaling": "policies.scaling",
    "Segregation": "policies.segregation",
    "Steering": "policies.steering",
    "US": "policies.policy",
}
__getattr__ = lazily(__name__, _HOMES)
