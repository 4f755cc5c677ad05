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

{{/* The agent's security context. Beside a driver it is the driver's user: no other one goes through its door. */}}
{{- define "weir.agentSecurityContext" -}}
{{- $given := default (dict) .Values.securityContext -}}
{{- if and (eq (include "weir.hasDoors" .) "true") (hasKey $given "runAsUser") -}}
{{- $user := .Values.sidecar.driverUser | int -}}
{{- $given = set (set (deepCopy $given) "runAsUser" $user) "runAsNonRoot" (ne $user 0) -}}
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
args: [agent, --config, /etc/weir/config/config.yaml]
{{- with include "weir.agentSecurityContext" . }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
ports:
  - name: weir
    containerPort: {{ .Values.agent.port }}
    protocol: TCP
{{- if ne (include "weir.isLoopback" .) "true" }}
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
{{- if eq .Values.mode "shared" }}
# Not ready while the state cannot be written: events would be refused anyway.
readinessProbe:
  httpGet: {{- include "weir.probe" (list . "/readyz") | nindent 4 }}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}
{{- else }}
# The kubelet does not reach loopback; the agent writes this file once it listens.
startupProbe:
  exec:
    command: [test, -s, /var/lib/weir/agent.address]
  periodSeconds: 1
  failureThreshold: 60
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
Every volume but weir-state, which differs. The second argument says who may read the token: 288 is
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
