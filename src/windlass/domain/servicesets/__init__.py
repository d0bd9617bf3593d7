"""Service sets: which service stands on which cluster at which version, and the next step of each. Pure.

Public as `windlass.servicesets`. The contract is K0rdent's package ``serviceset``, its behaviour reference kcm.md;
where the two are in dispute, design.md section 1 holds. What the contract's functions read from a cluster is an
argument here.
"""
