"""Manifests: some as people write them, and any that the models' types admit."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, TypeAliasType, Union, get_args, get_origin

import yaml
from hypothesis import strategies as st

from windlass.domain.servicesets.manifest import Manifest

type Strategy = st.SearchStrategy[Any]

TEXT: Final = st.text(max_size=5)
JSON: Final[Strategy] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def manifests(model: type[Manifest]) -> Strategy:
    """Any manifest of ``model``: fields absent, null or set, unknown ones among them, in any order."""
    known = {(field.alias or name): _values(field.annotation) for name, field in model.model_fields.items()}
    names = st.sampled_from(sorted(model.model_fields)) | st.sampled_from(["_keys", "later"]) | TEXT
    unknown = st.dictionaries(names.filter(lambda name: name not in known), JSON, max_size=2)
    fields = st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in known.items()})
    return st.builds(lambda one, two: one | two, fields, unknown).flatmap(
        lambda document: st.permutations(list(document.items())).map(dict)
    )


def _values(annotation: Any) -> Strategy:
    if isinstance(annotation, TypeAliasType):
        return _values(annotation.__value__)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {UnionType, Union}:
        return st.one_of([_values(part) for part in arguments if part is not NoneType])
    if origin is tuple:
        return st.lists(_values(arguments[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(TEXT, JSON if arguments[1] is Any else TEXT, max_size=2)
    if origin is not None and hasattr(annotation, "__metadata__"):
        return _values(arguments[0])
    if annotation is Any:
        return JSON
    if issubclass(annotation, Manifest):
        return st.deferred(lambda: manifests(annotation))
    if issubclass(annotation, StrEnum):
        return st.sampled_from([member.value for member in annotation])
    return {
        str: TEXT,
        bool: st.booleans(),
        int: st.integers(-(2**63) + 1, 2**63 - 1),
    }[annotation]


_WRITTEN: Final = """
apiVersion: k0rdent.mirantis.com/v1beta1
kind: ServiceTemplate
metadata:
  name: ingress-nginx-4-11-5
  namespace: tenant42
spec:
  helm:
    chartSpec:
      chart: ingress-nginx
      interval: 10m0s
      reconcileStrategy: ChartVersion
      sourceRef: {kind: HelmRepository, name: catalog}
      version: 4.11.5
  helmOptions: {timeout: 5m, atomic: true}
  k8sConstraint: ">=1.28"
status:
  chartRef: {kind: HelmChart, name: ingress-nginx, namespace: tenant42}
  observedGeneration: 1
  valid: true
---
apiVersion: k0rdent.mirantis.com/v1beta1
kind: ServiceTemplateChain
metadata: {name: ingress, namespace: tenant42}
spec:
  supportedTemplates:
  - name: ingress-nginx-4-11-3
    availableUpgrades:
    - name: ingress-nginx-4-11-5
      version: 4.11.5
  - name: ingress-nginx-4-11-5
status: {valid: true}
---
apiVersion: k0rdent.mirantis.com/v1beta1
kind: ClusterDeployment
metadata:
  labels: {stage: prod}
  name: edge
  namespace: tenant42
  ownerReferences: []
spec:
  config: {clusterLabels: {}, controlPlaneNumber: 1}
  credential: aws
  dryRun: false
  serviceSpec:
    priority: 100
    syncMode: Continuous
    services:
    - name: ingress
      namespace: web
      template: ingress-nginx-4-11-3
      templateChain: ingress
      values: |
        controller: {replicas: 2}
      valuesFrom:
      - {kind: ConfigMap, name: ingress-values}
      dependsOn:
      - {name: cert-manager, namespace: certs}
    - name: cert-manager
      namespace: certs
      template: cert-manager-1-17-0
      disable: false
  template: aws-standalone-cp-1-0-20
status:
  conditions:
  - {type: ServicesInReadyState, status: "False", lastTransitionTime: "2026-01-01T00:00:00Z", reason: Progressing}
  services:
  - name: cert-manager
    namespace: certs
    state: Deployed
    template: cert-manager-1-17-0
    type: Helm
    version: 1.17.0
  servicesUpgradePaths:
  - name: ingress
    namespace: web
    template: ingress-nginx-4-11-3
    availableUpgrades:
    - versions:
      - {name: ingress-nginx-4-11-5, version: 4.11.5}
---
apiVersion: k0rdent.mirantis.com/v1beta1
kind: MultiClusterService
metadata: {name: mesh, generation: 3, finalizers: [k0rdent.mirantis.com/multicluster-service]}
spec:
  clusterSelector:
    matchLabels: {stage: prod}
    matchExpressions: [{key: region, operator: In, values: [eu, us]}]
  dependsOn: [base]
  keepServicesOnSelectorMismatch: true
  serviceSpec:
    provider:
      name: ksm-projectsveltos
      config: {priority: 50, stopOnConflict: true}
      selfManagement: true
    services:
    - {name: istio, template: istio-1-24, helmAction: Install, helmOptions: {timeout: 5m}, version: "1.24"}
status:
  matchingClusters:
  - {apiVersion: v1, kind: ClusterDeployment, name: edge, namespace: tenant42, deployed: true, regional: false}
  observedGeneration: 3
---
apiVersion: k0rdent.mirantis.com/v1beta1
kind: ServiceSet
metadata: {name: edge, namespace: tenant42, resourceVersion: "81", uid: 5a}
spec:
  cluster: edge
  provider: {name: ksm-projectsveltos, config: null, selfManagement: false}
  services:
  - {name: cert-manager, namespace: certs, template: cert-manager-1-17-0, version: 1.17.0, values: ""}
status:
  cluster: {kind: ClusterDeployment, name: edge, namespace: tenant42}
  deployed: true
  provider: {ready: true, suspended: false}
  services:
  - name: cert-manager
    namespace: certs
    state: Deployed
    lastDeployedHash: 77ab
    lastStateTransitionTime: "2026-01-01T00:00:00Z"
    conditions: [{type: Helm, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]
---
apiVersion: k0rdent.mirantis.com/v1beta1
kind: StateManagementProvider
metadata: {name: ksm-projectsveltos}
spec:
  adapter: {apiVersion: apps/v1, kind: Deployment, name: kcm, namespace: kcm-system, readinessRule: "self.ok"}
  provisioner: [{apiVersion: apps/v1, kind: Deployment, name: addon-controller, namespace: projectsveltos}]
  provisionerCRDs: [{group: config.projectsveltos.io, version: v1beta1, resources: [profiles]}]
  selector: {matchLabels: {ksm.k0rdent.mirantis.com/adapter: kcm-controller-manager}}
  suspend: false
status: {ready: true, conditions: []}
"""

MANIFESTS: Final[dict[str, dict[str, Any]]] = {document["kind"]: document for document in yaml.safe_load_all(_WRITTEN)}
