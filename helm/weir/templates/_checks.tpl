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
{{- if and .Chart.IsRoot (eq (toString .Values.enabled) "false") -}}
{{- fail "enabled: false turns nothing off here, as it is for the condition of a parent chart's dependency: leave it out, and do not install the chart" -}}
{{- end -}}
{{- if and .Values.token.create .Values.token.existingSecret -}}
{{- fail (printf "token: one is to be made and one is given: set token.create=false to use the Secret %q, or unset token.existingSecret" .Values.token.existingSecret) -}}
{{- end -}}
{{- if .Values.token.driverSecret -}}
{{- if .Values.token.create -}}
{{- fail (printf "token.driverSecret: where a token is made, so is that of the drivers: set token.create=false and token.existingSecret to use the Secret %q, or unset it" .Values.token.driverSecret) -}}
{{- end -}}
{{- if not .Values.token.existingSecret -}}
{{- fail "token.driverSecret: there is no token that opens more: set token.existingSecret to a Secret that holds one" -}}
{{- end -}}
{{- if eq .Values.token.driverSecret .Values.token.existingSecret -}}
{{- fail (printf "token.driverSecret and token.existingSecret are both %q, and no token opens all and events alone: name another Secret, or unset token.driverSecret" .Values.token.driverSecret) -}}
{{- end -}}
{{- end -}}
{{- if and $shared (not (has .Values.agent.host (list "0.0.0.0" "::"))) -}}
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
{{- if $token -}}{{- include "weir.checkToken" . -}}{{- end -}}
{{- if has .Release.Namespace .Values.drivers.namespaces -}}
{{- fail (printf "drivers.namespaces: %s is the release's own namespace, whose drivers are let in already: leave it out" .Release.Namespace) -}}
{{- end -}}
{{- include "weir.checkConfig" . -}}
{{- include "weir.checkLabels" . -}}
{{- include "weir.checkResources" . -}}
{{- if .Values.monitor.enabled -}}
{{- include "weir.checkMonitor" .Values.monitor -}}
{{- end -}}
{{- if $shared -}}
{{- $name := include "weir.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "release name: with it the Service would be called %q, which no Service can be: set fullnameOverride to letters a to z, digits and hyphens, a letter first, such as weir-%s" $name (regexReplaceAll "[^a-z0-9]+" $name "-" | trimPrefix "weir-" | trimSuffix "-weir")) -}}
{{- end -}}
{{- with .Values.token.driverSecret -}}
{{- if not (include "weir.sparkMounts" .) -}}
{{- fail (printf "token.driverSecret is %q, of which no driver could be made: Spark mounts it as the volume %s-volume, whose name has letters, digits and hyphens, 63 at most: copy it into a Secret whose name has no dot and at most 56 characters, and name that" . .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.persistence.enabled (not .Values.persistence.existingClaim) (eq (include "weir.quantity" .Values.persistence.size | float64) 0.0) -}}
{{- fail (printf "persistence.size is %v, and a volume of no size holds nothing: set persistence.size=1Gi, or persistence.enabled=false" .Values.persistence.size) -}}
{{- end -}}
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
{{- if and .Values.tls.secretName .Values.tls.caKey .Values.monitor.enabled -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace .Values.tls.secretName -}}
{{- if and $secret (not (hasKey (default dict $secret.data) .Values.tls.caKey)) -}}
{{- fail (printf "tls.caKey: the Secret %q holds no %q, so Prometheus could not check the agent's certificate, and its operator would drop the monitor: set tls.caKey to the key with the authority's certificate (there are %s), or tls.caKey=\"\", and Prometheus does not check" .Values.tls.secretName .Values.tls.caKey (keys (default dict $secret.data) | sortAlpha | join ", " | default "none")) -}}
{{- end -}}
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
{{- range $setting, $port := include "weir.driverPorts" . | fromYaml -}}
{{- if eq ($port | int) ($.Values.agent.port | int) -}}
{{- fail (printf "agent.port is %d, where the driver in the same pod listens (%s): set agent.port to another one, such as 9655" ($port | int) $setting) -}}
{{- end -}}
{{- end -}}
{{- if not (has .Values.agent.host (list "0.0.0.0" "::" "127.0.0.1")) -}}
{{- fail (printf "agent.host is %s, and in mode=sidecar the driver asks its agent at 127.0.0.1: set agent.host=0.0.0.0 (or ::), or 127.0.0.1" .Values.agent.host) -}}
{{- end -}}
{{- if .Values.config.kafka_options_file -}}
{{- fail (printf "config.kafka_options_file: in mode=sidecar nothing brings %s into the driver's pod: unset it, or set mode=shared with extraVolumes" .Values.config.kafka_options_file) -}}
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
{{- if not (regexMatch "^[a-z]" (include "weir.applicationObject" $)) -}}
{{- fail (printf "sidecar.livenessProbe.application: of %q no object can be named, as the SparkApplication is: begin the application's name (spark.app.name) with a letter from a to z, and set this to the same" .application) -}}
{{- end -}}
{{- if $.Values.config.live_need_token -}}
{{- fail "sidecar.livenessProbe: it has no token to show: set config.live_need_token=false, or sidecar.livenessProbe.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
What the cluster's Secrets hold, where they are there already. Agent and drivers leave out what is blank around
a token, and Prometheus sends all of it: Go's client refuses a header with a line end in it.
*/}}
{{- define "weir.checkToken" -}}
{{- $main := include "weir.secretName" . -}}
{{- $drivers := include "weir.driverSecretName" . -}}
{{- $lines := dict -}}
{{- range $name := compact (list $main $drivers) -}}
{{- $secret := lookup "v1" "Secret" $.Release.Namespace $name -}}
{{- $data := default dict (default dict $secret).data -}}
{{- $text := index $data $.Values.token.key | default "" | b64dec -}}
{{- if and $secret (or $text (not $.Values.token.create)) -}}
{{- if not (regexMatch `^\s*[!-~][ -~\s]*$` $text) -}}
{{- fail (printf "token: the Secret %q holds under %q none that the agent takes, which is printable ASCII: put one there, or set token.key to the key that has it (there are %s)" $name $.Values.token.key (keys $data | sortAlpha | join ", " | default "none")) -}}
{{- end -}}
{{- if and (eq $name $main) $.Values.monitor.enabled $.Values.config.metrics_need_token (regexMatch `[\r\n]` $text) -}}
{{- fail (printf "config.metrics_need_token: the Secret %q holds a line end, with which Prometheus could not send the token: write it without one (printf, not echo), or set config.metrics_need_token=false" $name) -}}
{{- end -}}
{{- $own := list -}}
{{- range $line := regexSplit `[\r\n]+` $text -1 -}}
{{- $own = append $own (trim $line) -}}
{{- end -}}
{{- $_ := set $lines $name (compact $own) -}}
{{- end -}}
{{- end -}}
{{- range $line := index $lines $main -}}
{{- if has $line (default list (index $lines $drivers)) -}}
{{- fail (printf "token: the Secrets %q and %q hold the same token, and no token opens all and events alone: put another one into the latter" $main $drivers) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the agent itself would refuse of its options, and a target that its deadline forbids. */}}
{{- define "weir.checkConfig" -}}
{{- $agent := .Files.Get "files/agent.json" | fromJson -}}
{{- range $name, $value := .Values.config.labels -}}
{{- if not (regexMatch $agent.label_name $name) -}}
{{- fail (printf "config.labels: %q cannot be a label's name: rename it to letters, digits and _, a letter first" $name) -}}
{{- end -}}
{{- if has $name $agent.reserved_labels -}}
{{- fail (printf "config.labels: %q is a label that Weir or Prometheus sets itself: rename yours" $name) -}}
{{- end -}}
{{- if not (regexMatch "^( |[^\\pC\\pZ])*$" $value) -}}
{{- fail (printf "config.labels: the value %q of %s does not print: leave out what cannot be seen" $value $name) -}}
{{- end -}}
{{- end -}}
{{- if not .Values.config.kafka_bootstrap_servers -}}
{{- range $key := list "kafka_options_file" "kafka_commit_group" -}}
{{- if index $.Values.config $key -}}
{{- fail (printf "config.%s: there are no brokers to ask: set config.kafka_bootstrap_servers, or unset it" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.config.kafka_commit_group -}}
{{- $plain := . | replace "{application}" "" | replace "{query}" "" -}}
{{- if or (not (contains "{application}" .)) (not (contains "{query}" .)) (contains "{" $plain) (contains "}" $plain) -}}
{{- fail (printf "config.kafka_commit_group: %q gives no group to each query: set it to a name with {application} and {query} in it and no other braces, such as weir-{application}-{query}" .) -}}
{{- end -}}
{{- end -}}
{{- include "weir.checkRecord" . -}}
{{- range .Values.config.event_log_dirs -}}
{{- if ne (include "weir.isHeld" (list $ . "/")) "true" -}}
{{- fail (printf "config.event_log_dirs: %s is on no volume of the agent's, and it would follow nothing: %s" . (ternary "bring the logs there by extraVolumes and extraVolumeMounts" "unset it, or set mode=shared with extraVolumes" (eq $.Values.mode "shared"))) -}}
{{- end -}}
{{- end -}}
{{- include "weir.checkPolicy" (list "config" .Values.config $agent.defaults) -}}
{{- range .Values.config.rules -}}
{{- include "weir.checkPolicy" (list (printf "config.rules (%s)" .match) . $.Values.config $agent.defaults) -}}
{{- end -}}
{{- end -}}

{{/*
Whether a path is on a volume that lasts: the state's, or of a shared agent one of yours. The third argument
is a slash where the path may be the volume's own. What is relative begins where the image's command does.
*/}}
{{- define "weir.isHeld" -}}
{{- $root := index . 0 -}}
{{- $path := index . 1 -}}
{{- $whole := clean (ternary $path (printf "/var/lib/weir/%s" $path) (isAbs $path)) -}}
{{- $folders := list "/var/lib/weir" -}}
{{- if eq $root.Values.mode "shared" -}}
{{- range $root.Values.extraVolumeMounts -}}{{- $folders = append $folders .mountPath -}}{{- end -}}
{{- end -}}
{{- $held := false -}}
{{- range $folders -}}
{{- if hasPrefix (printf "%s/" (clean .)) (printf "%s%s" $whole (index $ 2)) -}}{{- $held = true -}}{{- end -}}
{{- end -}}
{{- $held -}}
{{- end -}}

{{/*
A record grows to hundreds of MiB. In /tmp, whose volume holds 64 MiB, it would get the pod evicted, beside
a driver the job; anywhere else the root is read-only.
*/}}
{{- define "weir.checkRecord" -}}
{{- $shared := eq .Values.mode "shared" -}}
{{- with .Values.config.record_file -}}
{{- if ne (include "weir.isHeld" (list $ . "")) "true" -}}
{{- fail (printf "config.record_file: %s is on no volume that holds records: set it to a file below /var/lib/weir, such as /var/lib/weir/%s%s" . (base .) (ternary ", or below a mountPath of extraVolumeMounts" "" $shared)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One policy: where it stands, its options, and in what follows those that hold where it has none. */}}
{{- define "weir.checkPolicy" -}}
{{- $where := first . -}}
{{- $all := dict -}}
{{- range rest . -}}{{- range $key, $value := . -}}
{{- if and (not (hasKey $all $key)) (ne (kindOf $value) "invalid") -}}{{- $_ := set $all $key $value -}}{{- end -}}
{{- end -}}{{- end -}}
{{- with $all -}}
{{- if and .deadline_seconds (gt (.target_seconds | float64) (default 0 .deadline_seconds | float64)) -}}
{{- fail (printf "target_seconds in %s: %s is above deadline_seconds %s, at which a batch is killed: lower the first or raise the second" $where (toJson .target_seconds) (toJson .deadline_seconds)) -}}
{{- end -}}
{{- if and .maximum_limit (lt (default 0 .maximum_limit | int64) (.minimum_limit | int64)) -}}
{{- fail (printf "maximum_limit in %s: %d is below minimum_limit %d: raise the first or lower the second" $where (.maximum_limit | int64) (.minimum_limit | int64)) -}}
{{- end -}}
{{- if and (has (toString .executors) (list "on" "true")) (not .maximum_executors) -}}
{{- fail (printf "executors in %s: on needs maximum_executors, the most that may be asked for: set it, or executors: dry-run" $where) -}}
{{- end -}}
{{- if and .maximum_executors (lt (default 0 .maximum_executors | int64) (.minimum_executors | int64)) -}}
{{- fail (printf "maximum_executors in %s: %d is below minimum_executors %d: raise the first or lower the second" $where (.maximum_executors | int64) (.minimum_executors | int64)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of yours beside those that the chart sets and chooses by. */}}
{{- define "weir.checkLabels" -}}
{{- $own := merge (include "weir.ownLabels" . | fromYaml) (include "weir.instanceLabel" . | fromYaml) -}}
{{- $given := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "monitor.labels" .Values.monitor.labels "alerts.labels" .Values.alerts.labels "dashboards.labels" .Values.dashboards.labels -}}
{{- range $key, $labels := $given -}}
{{- range $name := keys (default dict $labels) | sortAlpha -}}
{{- if hasKey $own $name -}}
{{- fail (printf "labels: %s has %s, which the chart sets itself, as objects are chosen by such labels: leave it out" $key $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* No node takes a pod that requests more than it may have. */}}
{{- define "weir.checkResources" -}}
{{- $shared := eq .Values.mode "shared" -}}
{{- $key := ternary "resources" "sidecar.resources" $shared -}}
{{- with ternary .Values.resources .Values.sidecar.resources $shared -}}
{{- $limits := default dict .limits -}}
{{- range $name, $requested := .requests -}}
{{- $limit := index $limits $name -}}
{{- if and (ne (kindOf $limit) "invalid") (gt (include "weir.quantity" $requested | float64) (include "weir.quantity" $limit | float64)) -}}
{{- fail (printf "resources: %s.requests.%s %v is above %s.limits.%s %v: set both, since where one is given alone the chart's own stands beside it" $key $name $requested $key $name $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Prometheus takes no target whose scrape may last longer than to the next one. */}}
{{- define "weir.checkMonitor" -}}
{{- $interval := include "weir.milliseconds" .interval | int64 -}}
{{- $timeout := include "weir.milliseconds" .scrapeTimeout | int64 -}}
{{- if or (eq $interval 0) (eq $timeout 0) -}}
{{- fail (printf "monitor.interval %s and monitor.scrapeTimeout %s: neither may be zero: set both to some seconds, such as 15s and 10s" .interval .scrapeTimeout) -}}
{{- end -}}
{{- if lt $interval $timeout -}}
{{- fail (printf "monitor.interval %s is below monitor.scrapeTimeout %s: raise the first or lower the second" .interval .scrapeTimeout) -}}
{{- end -}}
{{- if gt $interval 60000 -}}
{{- fail (printf "monitor.interval %s is above 1m: alerts count an agent's failed scrapes within minutes, and would come and go or never fire: give 1m or less" .interval) -}}
{{- end -}}
{{- end -}}

{{/* A duration such as 1m30s in milliseconds. */}}
{{- define "weir.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|[smh])" . -1 -}}
{{- $sum = add $sum (mul (regexFind "^[0-9]+" . | int64) (index $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* A quantity such as 100m or 1.5Gi as a number. */}}
{{- define "weir.quantity" -}}
{{- $text := toString . -}}
{{- $units := dict "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- $unit := regexFind "([kMGTPE]i?|m)$" $text -}}
{{- mulf (trimSuffix $unit $text | float64) (ternary 1.0 (index $units $unit) (empty $unit)) -}}
{{- end -}}
