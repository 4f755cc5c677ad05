{{/* The agent's container, the same in both modes, and what it mounts. */}}

{{/* The file for `weir agent --config`: your options, and those that follow from other values. */}}
{{- define "weir.config" -}}
{{- $own := dict "host" .Values.agent.host "port" (.Values.agent.port | int) "state_dir" "/var/lib/weir" -}}
{{- if eq (include "weir.hasToken" .) "true" -}}
{{- $_ := set $own "token_file" (printf "/etc/weir/token/%s" .Values.token.key) -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $own "tls_cert_file" "/etc/weir/tls/tls.crt" -}}
{{- $_ := set $own "tls_key_file" "/etc/weir/tls/tls.key" -}}
{{- end -}}
{{- $_ := set $own "doors" (ternary "/opt/weir/doors" "off" (eq (include "weir.hasDoors" .) "true")) -}}
{{- toYaml (merge $own .Values.config) -}}
{{- end -}}

{{/* Whether drivers open doors to this agent: only one in the driver's own pod can go through. */}}
{{- define "weir.hasDoors" -}}
{{- and (eq .Values.mode "sidecar") .Values.sidecar.plugin -}}
{{- end -}}

{{/* A security context of yours as YAML; without users and groups where the platform gives them out. */}}
{{- define "weir.securityContext" -}}
{{- $given := index . 1 | default dict -}}
{{- if (index . 0).Values.platformUsers -}}
{{- $given = omit $given "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- with $given -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/*
The agent's security context. Beside a driver it is the driver's user: no other one goes through its door.
Where no user is named the platform gives one, to all containers of the pod the same.
*/}}
{{- define "weir.agentSecurityContext" -}}
{{- $given := include "weir.securityContext" (list . .Values.securityContext) | fromYaml -}}
{{- if and (eq (include "weir.hasDoors" .) "true") (ne (kindOf $given.runAsUser) "invalid") -}}
{{- if eq (kindOf .Values.sidecar.driverUser) "invalid" -}}
{{- $given = omit $given "runAsUser" -}}
{{- else -}}
{{- $user := .Values.sidecar.driverUser | int64 -}}
{{- $given = set (set (deepCopy $given) "runAsUser" $user) "runAsNonRoot" (ne $user 0) -}}
{{- end -}}
{{- end -}}
{{- with $given -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "weir.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.secretName)) -}}
{{- end -}}

{{- define "weir.container" -}}
image: {{ include "weir.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy | quote }}
{{- if eq .Values.mode "shared" }}
args: [agent, --config, /etc/weir/config/config.yaml]
{{- else }}
# Kubernetes starts the driver when this container runs, and Spark's executors find the driver while
# all containers of its pod are ready. So this one runs on whatever becomes of the agent in it, which
# is started anew after 20 s: a start that fails takes a second of a processor, no more than 5 % then.
command:
  - sh
  - -c
  - |-
    ended= child=
    trap 'told=yes ended=yes; kill "$child" 2>/dev/null' TERM INT
    run() {
      "$@" &
      child=$!
      [ -z "$ended" ] || kill "$child" 2>/dev/null
      # A signal ends `wait` before it has ended the child.
      until told=; wait "$child"; found=$?; [ -z "$told" ]; do :; done
      return "$found"
    }
    while run "$@"; code=$?; [ -z "$ended" ]; do
      echo "weir: the agent ended with exit code $code; it is started anew in 20 s" >&2
      run sleep 20
      [ -z "$ended" ] || break
    done
    exit "$code"
  - sh
args: [weir, agent, --config, /etc/weir/config/config.yaml]
{{- end }}
{{- with include "weir.agentSecurityContext" . }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- if include "weir.driverSecretName" . }}
env:
  # Not in the file: beside a driver that an older release's template made, an older agent reads
  # that one, and would not start with an option that it does not know.
  - name: WEIR_EVENTS_TOKEN_FILE
    value: /etc/weir/driver-token/{{ .Values.token.key }}
{{- end }}
ports:
  - name: weir
    containerPort: {{ .Values.agent.port }}
    protocol: TCP
{{- if eq .Values.mode "shared" }}
# Saved state is read before the agent listens; a minute is far more than 2000 queries take.
startupProbe:
  httpGet: {{- include "weir.probe" (list . "/healthz") | nindent 4 }}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 60
# Restarts a process that answers nothing at all. Queries have no say in it.
livenessProbe:
  httpGet: {{- include "weir.probe" (list . "/healthz") | nindent 4 }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
# Not ready while the state cannot be written: events would be refused anyway.
readinessProbe:
  httpGet: {{- include "weir.probe" (list . "/readyz") | nindent 4 }}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- else }}
# Restarts an agent that takes connections and answers nothing at all. One that takes none is away,
# or still reads what it saved: that is waited for, with the driver running.
livenessProbe:
  exec:
    command:
      - bash
      - -c
      - |-
        { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || exit 0
        printf 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&3 &&
          read -r -t 3 _ <&3
      - answers
      - {{ .Values.agent.port | int | quote }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}
{{- with ternary .Values.resources .Values.sidecar.resources (eq .Values.mode "shared") }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: weir-config
    mountPath: /etc/weir/config
    readOnly: true
  {{- if eq (include "weir.hasToken" .) "true" }}
  - name: weir-token
    mountPath: /etc/weir/token
    readOnly: true
  {{- end }}
  {{- if include "weir.driverSecretName" . }}
  - name: weir-driver-token
    mountPath: /etc/weir/driver-token
    readOnly: true
  {{- end }}
  {{- if .Values.tls.secretName }}
  - name: weir-tls
    mountPath: /etc/weir/tls
    readOnly: true
  {{- end }}
  - name: weir-state
    mountPath: /var/lib/weir
  - name: weir-tmp
    mountPath: /tmp
  {{- if eq (include "weir.hasDoors" .) "true" }}
  - name: weir-doors
    mountPath: /opt/weir/doors
    readOnly: true
  {{- end }}
  {{- if eq .Values.mode "shared" }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{- define "weir.probe" -}}
{{- $root := index . 0 -}}
path: {{ index . 1 }}
port: weir
{{- if $root.Values.tls.secretName }}
scheme: HTTPS
{{- end }}
{{- end -}}

{{/*
Every volume but weir-state, which differs. The second argument says who may read the tokens: 288 is
0440, 292 is 0444, in decimals, since readers of YAML disagree about a leading zero.
*/}}
{{- define "weir.volumes" -}}
{{- $root := index . 0 -}}
{{- $mode := index . 1 -}}
- name: weir-config
  configMap:
    name: {{ include "weir.fullname" $root | quote }}
{{- if eq (include "weir.hasToken" $root) "true" }}
- name: weir-token
  secret:
    secretName: {{ include "weir.secretName" $root | quote }}
    defaultMode: {{ $mode }}
    items:
      - key: {{ $root.Values.token.key | quote }}
        path: {{ $root.Values.token.key | quote }}
{{- end }}
{{- with include "weir.driverSecretName" $root }}
- name: weir-driver-token
  secret:
    secretName: {{ . | quote }}
    defaultMode: {{ $mode }}
    items:
      - key: {{ $root.Values.token.key | quote }}
        path: {{ $root.Values.token.key | quote }}
{{- end }}
{{- if $root.Values.tls.secretName }}
- name: weir-tls
  secret:
    secretName: {{ $root.Values.tls.secretName | quote }}
    defaultMode: {{ $mode }}
{{- end }}
- name: weir-tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}
