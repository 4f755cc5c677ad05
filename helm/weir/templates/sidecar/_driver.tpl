{{/* The SparkApplication's name, of the application's: the operator names Services by it. */}}
{{- define "weir.applicationObject" -}}
{{- $name := default "orders" .Values.sidecar.livenessProbe.application | lower -}}
{{- regexReplaceAll "[^a-z0-9]+" $name "-" | trimAll "-" | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Ports that Spark gives a driver's pod, each by the setting that changes it. */}}
{{- define "weir.driverPorts" -}}
spark.driver.port: 7078
spark.driver.blockManager.port: 7079
spark.connect.grpc.binding.port: 15002
spark.ui.port: {{ .Values.networkPolicy.driverUiPort }}
{{- end -}}

{{/*
A driver's pod with the agent in it: what Spark takes as spark.kubernetes.driver.podTemplateFile and
the Spark operator as spec.driver.template. Spark fills in the rest.
*/}}
{{- define "weir.driverPod" -}}
metadata:
  labels:
    {{- include "weir.instanceLabel" . | nindent 4 }}
spec:
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and .Values.sidecar.existingClaim .Values.sidecar.fsGroup (not .Values.platformUsers) }}
  # The claim must be writable for the agent, which is not root.
  securityContext:
    fsGroup: {{ .Values.sidecar.fsGroup | int64 }}
    # It holds for the job's own volumes, too, which no start is to walk file by file.
    fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  initContainers:
    {{- if or .Values.sidecar.listener .Values.sidecar.plugin }}
    # Lends the driver what is Weir's, so that no image has to be built for it.
    - name: weir-listener
      image: {{ include "weir.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy | quote }}
      command:
        - cp
        {{- if .Values.sidecar.plugin }}
        - /usr/share/weir/weir-spark-plugin.jar
        {{- end }}
        {{- if .Values.sidecar.listener }}
        - /usr/share/weir/weir_spark_listener.zip
        {{- end }}
        - /listener/
      {{- with include "weir.securityContext" (list . .Values.securityContext) }}
      securityContext:
        {{- . | nindent 8 }}
      {{- end }}
      {{- /* It has ended when the agent starts, so it adds nothing; a quota asks it of each container. */}}
      {{- with .Values.sidecar.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: weir-listener
          mountPath: /listener
    {{- end }}
    # Starts before the driver and, since it always restarts, ends after it: the pod can complete.
    - name: weir
      restartPolicy: Always
      {{- include "weir.container" . | nindent 6 }}
  containers:
    - name: spark-kubernetes-driver
      env:
        - name: WEIR_AGENT_URL
          value: {{ printf "http://127.0.0.1:%d" (.Values.agent.port | int) }}
        {{- if eq (include "weir.hasToken" .) "true" }}
        - name: WEIR_TOKEN_FILE
          value: /etc/weir/token/{{ .Values.token.key }}
        {{- end }}
      {{- with .Values.sidecar.livenessProbe }}
      {{- if .enabled }}
      # The agent answers 503 only where a restart of the driver helps: it is silent, or hangs past
      # your deadline. That alone counts, so no httpGet: an agent that is away, or does not answer,
      # not even that it takes the connection, must not end a job.
      livenessProbe:
        exec:
          command:
            - bash
            - -c
            - |-
              ask() {
                exec 3<>"/dev/tcp/127.0.0.1/$1" &&
                  printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' "$2" >&3 &&
                  read -r -t 3 _ status _ <&3 && echo "$status"
              }
              read -r -t 3 status < <(ask "$@" 2>/dev/null) || { kill -9 $!; wait $!; } 2>/dev/null
              [ "$status" != 503 ]
            - ask
            - {{ $.Values.agent.port | int | quote }}
            - /queries/{{ .application | urlquery | replace "+" "%20" }}/{{ .query | urlquery | replace "+" "%20" }}/live
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      {{- end }}
      {{- end }}
      {{- if or .Values.sidecar.listener .Values.sidecar.plugin (eq (include "weir.hasToken" .) "true") }}
      volumeMounts:
        {{- if eq (include "weir.hasToken" .) "true" }}
        - name: {{ ternary "weir-driver-token" "weir-token" (not (empty (include "weir.driverSecretName" .))) }}
          mountPath: /etc/weir/token
          readOnly: true
        {{- end }}
        {{- if or .Values.sidecar.listener .Values.sidecar.plugin }}
        - name: weir-listener
          mountPath: /opt/weir/listener
          readOnly: true
        {{- end }}
        {{- if .Values.sidecar.plugin }}
        - name: weir-doors
          mountPath: /opt/weir/doors
        {{- end }}
      {{- end }}
  volumes:
    {{- /* Two users read a token here, Spark's and the agent's, and nobody else is in the pod. */}}
    {{- include "weir.volumes" (list . 292) | nindent 4 }}
    - name: weir-state
      {{- if .Values.sidecar.existingClaim }}
      persistentVolumeClaim:
        claimName: {{ .Values.sidecar.existingClaim | quote }}
      {{- else }}
      # Gone with the pod: a new one learns anew.
      emptyDir: {}
      {{- end }}
    {{- if or .Values.sidecar.listener .Values.sidecar.plugin }}
    - name: weir-listener
      emptyDir:
        sizeLimit: 16Mi
    {{- end }}
    {{- if .Values.sidecar.plugin }}
    # Where the driver opens a door, and the agent finds it.
    - name: weir-doors
      emptyDir:
        sizeLimit: 1Mi
    {{- end }}
{{- end -}}
