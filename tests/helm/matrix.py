"""Values that people set, by name: every one must render, lint and validate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.helm.chart import Values

MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}

MATRIX: dict[str, Values] = {
    "shared": {},
    "shared-given-token": {"token": {"create": False, "existingSecret": "ours", "key": "weir"}},
    "shared-given-tokens": {
        "token": {"create": False, "existingSecret": "ours", "driverSecret": "drivers"}
    },
    "shared-namespaces": {"drivers": {"namespaces": ["orders", "fraud"]}},
    "shared-namespaces-given-token": {
        "drivers": {"namespaces": ["orders"]},
        "token": {"create": False, "existingSecret": "ours"},
    },
    "shared-tls": {
        "tls": {"secretName": "weir-tls"},
        "monitor": {"enabled": True},
        "networkPolicy": {"from": [MONITORING]},
    },
    "shared-tls-unchecked": {
        "tls": {"secretName": "weir-tls", "caKey": ""},
        "monitor": {"enabled": True},
        "networkPolicy": {"enabled": False},
    },
    "shared-monitored": {
        "monitor": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
        "alerts": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
        "networkPolicy": {"from": [MONITORING]},
        "config": {"metrics_need_token": True},
        "runbooksUrl": "https://wiki.example.com/runbooks/",
        "dashboards": {"annotations": {"grafana_folder": "Weir"}, "namespace": "grafana"},
    },
    "shared-no-volume": {"persistence": {"enabled": False}},
    "shared-given-volume": {"persistence": {"existingClaim": "weir-state"}},
    "shared-storage": {
        "persistence": {"storageClass": "fast", "size": "5Gi", "accessMode": "ReadWriteOncePod"}
    },
    "shared-placed": {
        "nodeSelector": {"pool": "services"},
        "tolerations": [{"key": "pool", "operator": "Equal", "value": "services"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "arch", "operator": "Exists"}]}
                    ]
                }
            }
        },
        "priorityClassName": "high",
        "podLabels": {"team": "data"},
        "podAnnotations": {"example.com/owner": "data"},
        "commonLabels": {"cost": "data"},
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccount": {"annotations": {"example.com/role": "none"}},
        "service": {"type": "LoadBalancer", "annotations": {"example.com/internal": "true"}},
        "image": {"digest": "sha256:" + "0" * 64, "pullPolicy": "Always"},
        "fullnameOverride": "backlog",
    },
    "shared-ipv6": {"agent": {"host": "::", "port": 19655}},
    "shared-foreign-account": {"serviceAccount": {"create": False, "name": "ours"}},
    "shared-no-policy": {"networkPolicy": {"enabled": False}, "dashboards": {"enabled": False}},
    "shared-configured": {
        "config": {
            "mode": "dry-run",
            "target_seconds": 10,
            "deadline_seconds": 120,
            "max_request_bytes": 16777216,
            "record_file": "/var/lib/weir/events.ndjson",
            "labels": {"cluster": "a", "namespace": "jobs"},
            "rules": [
                {"match": "orders/*", "target_seconds": 2.5},
                {"match": "*-backfill", "mode": "off"},
            ],
        }
    },
    "shared-event-logs": {
        "config": {"event_log_dirs": ["/logs"]},
        "extraVolumes": [{"name": "logs", "persistentVolumeClaim": {"claimName": "spark-logs"}}],
        "extraVolumeMounts": [{"name": "logs", "mountPath": "/logs", "readOnly": True}],
    },
    "shared-kafka": {
        "config": {"kafka_bootstrap_servers": "kafka.kafka.svc:9092"},
        "networkPolicy": {
            "egress": [
                {
                    "to": [{"namespaceSelector": {"matchLabels": {"name": "kafka"}}}],
                    "ports": [{"port": 9092, "protocol": "TCP"}],
                }
            ]
        },
    },
    "sidecar": {"mode": "sidecar"},
    "sidecar-loopback": {
        "mode": "sidecar",
        "agent": {"host": "127.0.0.1"},
        "token": {"create": False},
    },
    "sidecar-loopback-with-token": {"mode": "sidecar", "agent": {"host": "127.0.0.1"}},
    "sidecar-given-token": {
        "mode": "sidecar",
        "token": {"create": False, "existingSecret": "ours", "key": "weir.token"},
    },
    "sidecar-given-tokens": {
        "mode": "sidecar",
        "token": {"create": False, "existingSecret": "ours", "driverSecret": "drivers"},
    },
    "sidecar-volume": {"mode": "sidecar", "sidecar": {"existingClaim": "orders-weir"}},
    "sidecar-own-listener": {"mode": "sidecar", "sidecar": {"listener": False}},
    "sidecar-no-mounts-of-the-driver": {
        "mode": "sidecar",
        "sidecar": {"listener": False, "plugin": False},
        "agent": {"host": "127.0.0.1"},
        "token": {"create": False},
    },
    "sidecar-by-a-line": {"mode": "sidecar", "sidecar": {"plugin": False}},
    "sidecar-monitored": {
        "mode": "sidecar",
        "monitor": {"enabled": True},
        "alerts": {"enabled": True},
        "config": {"metrics_need_token": True, "deadline_seconds": 60},
        "sidecar": {
            "livenessProbe": {
                "enabled": True,
                "application": "orders of today",
                "query": "enrich/clean+join",
            }
        },
        "imagePullSecrets": [{"name": "registry"}],
    },
}
