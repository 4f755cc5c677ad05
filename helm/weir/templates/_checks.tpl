{{/*
Values that contradict each other end here, each with a sentence that says what to set. The shape of
each value by itself is values.schema.json's.
*/}}

{{- define "weir.isLoopback" -}}
{{- if or (hasPrefix "127." .Values.agent.host) (has .Values.agent.host (list "::1" "localhost")) -}}true{{- end -}}
{{- end -}}

{{/* Whether there is a token, made or given. */}}
{{- define "weir.hasToken" -}}
{{- if or .Values.token.create .Values.token.existingSecret -}}true{{- end -}}
{{- end -}}

{{- define "weir.checks" -}}
{{- $shared := eq .Values.mode "shared" -}}
{{- $loopback := eq (include "weir.isLoopback" .) "true" -}}
{{- $token := eq (include "weir.hasToken" .) "true" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is empty and no image is published: build the Dockerfile, push it, and set image.repository to where it is" -}}
{{- end -}}
{{- if and .Values.token.create .Values.token.existingSecret -}}
{{- fail (printf "token: one is to be made and one is given: set token.create=false to use the Secret %q, or unset token.existingSecret" .Values.token.existingSecret) -}}
{{- end -}}
{{- if and $shared $loopback -}}
{{- fail (printf "agent.host is %s, where no driver of another pod reaches it: set agent.host=0.0.0.0 (or ::), or mode=sidecar" .Values.agent.host) -}}
{{- end -}}
{{- if and (not $token) (not $loopback) -}}
{{- fail (printf "token: agent.host %s is reachable from other pods and a token is neither made nor given: set token.create=true, or token.existingSecret to a Secret that holds one%s" .Values.agent.host (ternary "" ", or agent.host=127.0.0.1" $shared)) -}}
{{- end -}}
{{- if not $token -}}
{{- range $key := list "metrics_need_token" "live_need_token" -}}
{{- if index $.Values.config $key -}}
{{- fail (printf "config.%s: there is no token to ask for: set token.create=true, or token.existingSecret to a Secret that holds one" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if has .Release.Namespace .Values.drivers.namespaces -}}
{{- fail (printf "drivers.namespaces: %s is the release's own namespace, whose drivers are let in already: leave it out" .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.config.maximum_limit (lt (.Values.config.maximum_limit | int64) (default 1 .Values.config.minimum_limit | int64)) -}}
{{- fail "config.maximum_limit is below config.minimum_limit: raise the first or lower the second" -}}
{{- end -}}
{{- if $shared -}}
{{- if and .Values.persistence.existingClaim (not .Values.persistence.enabled) -}}
{{- fail (printf "persistence: the claim %q is given but persistence is off: set persistence.enabled=true, or unset persistence.existingClaim" .Values.persistence.existingClaim) -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount: none is made and none is named: set serviceAccount.create=true, or serviceAccount.name to one of yours" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled .Values.monitor.enabled (not .Values.networkPolicy.from) -}}
{{- fail "networkPolicy.from is empty, so Prometheus could not scrape: set it to the peers that may, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], or networkPolicy.enabled=false" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled .Values.config.kafka_bootstrap_servers (not .Values.networkPolicy.egress) -}}
{{- fail "networkPolicy.egress is empty, so the agent could not ask the brokers of config.kafka_bootstrap_servers: set it to a rule that lets it, such as [{ports: [{port: 9092}]}], or networkPolicy.enabled=false" -}}
{{- end -}}
{{- $volumes := list -}}
{{- range .Values.extraVolumes -}}{{- $volumes = append $volumes .name -}}{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "extraVolumeMounts: there is no volume %q: add it to extraVolumes" .name) -}}
{{- end -}}
{{- end -}}
{{- if or .Values.sidecar.existingClaim .Values.sidecar.livenessProbe.enabled -}}
{{- fail "sidecar.existingClaim and sidecar.livenessProbe belong to mode=sidecar: set that, or persistence.existingClaim for the shared agent" -}}
{{- end -}}
{{- else -}}
{{- if .Values.tls.secretName -}}
{{- fail "tls.secretName: in mode=sidecar the driver talks to its agent inside the pod: unset it, or set mode=shared" -}}
{{- end -}}
{{- if .Values.drivers.namespaces -}}
{{- fail "drivers.namespaces: in mode=sidecar the drivers run in the release's namespace: unset it, and install the chart once per namespace" -}}
{{- end -}}
{{- if .Values.persistence.existingClaim -}}
{{- fail "persistence.existingClaim belongs to mode=shared: set sidecar.existingClaim, one for each job" -}}
{{- end -}}
{{- if and $loopback .Values.monitor.enabled -}}
{{- fail (printf "monitor.enabled: Prometheus does not reach an agent at %s: set agent.host=0.0.0.0 (or ::), or monitor.enabled=false" .Values.agent.host) -}}
{{- end -}}
{{- with .Values.sidecar.livenessProbe -}}
{{- if .enabled -}}
{{- if or (not .application) (not .query) -}}
{{- fail "sidecar.livenessProbe: which query is to be watched: set sidecar.livenessProbe.application and sidecar.livenessProbe.query" -}}
{{- end -}}
{{- if $loopback -}}
{{- fail (printf "sidecar.livenessProbe: the kubelet does not reach an agent at %s: set agent.host=0.0.0.0 (or ::), or sidecar.livenessProbe.enabled=false" $.Values.agent.host) -}}
{{- end -}}
{{- if $.Values.config.live_need_token -}}
{{- fail "sidecar.livenessProbe: the kubelet has no token to show: set config.live_need_token=false, or sidecar.livenessProbe.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
