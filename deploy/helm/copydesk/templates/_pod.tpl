{{- /* The part of a container that servers and workers share: of (dict "top" $ "part" "serve" "values" .Values.serve). */ -}}
{{- define "copydesk.container" -}}
image: {{ include "copydesk.image" .top }}
imagePullPolicy: {{ .top.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
envFrom:
  - configMapRef:
      name: {{ include "copydesk.name" .top }}
  - secretRef:
      name: {{ include "copydesk.secret" .top }}
  {{- with .values.existingSecret }}
  - secretRef:
      name: {{ . }}
  {{- end }}
env:
  - name: COPYDESK_DRAIN_SECONDS
    value: {{ .values.drainSeconds | quote }}
  - name: COPYDESK_METRICS_HOST
    value: "0.0.0.0"
  {{- if eq .part "worker" }}
  - name: COPYDESK_METRICS_PORT
    value: "9100"
  {{- end }}
  {{- /* Named one by one, so that a pod without one of them does not start, and says so. */}}
  {{- range list "COPYDESK_SECRET_KEY" "COPYDESK_DATABASE_URL" "COPYDESK_ANALYTICS_URL" }}
  - name: {{ . }}
    valueFrom:
      secretKeyRef:
        name: {{ include "copydesk.secret" $.top }}
        key: {{ . }}
  {{- end }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
volumeMounts:
  - name: cache
    mountPath: /data
  - name: scratch
    mountPath: /tmp
  {{- with .top.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- /* The metadata of a pod, and of its specification what both share. */ -}}
{{- define "copydesk.pod.metadata" -}}
labels:
  {{- include "copydesk.labels" .top | nindent 2 }}
  app.kubernetes.io/component: {{ .part }}
annotations:
  checksum/settings: {{ include (print $.top.Template.BasePath "/configmap.yaml") .top | sha256sum }}
  checksum/secret: {{ include (print $.top.Template.BasePath "/secret.yaml") .top | sha256sum }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "copydesk.pod" -}}
serviceAccountName: {{ include "copydesk.account" .top }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .top.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- /* Draining, five seconds for what is under way, ten to hand jobs back, and some to spare. */}}
terminationGracePeriodSeconds: {{ add .values.drainSeconds 25 }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "copydesk.selector" $ | nindent 8 }}
  {{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: cache
    {{- if .values.cache.storageClass }}
    ephemeral:
      volumeClaimTemplate:
        spec:
          accessModes: [ReadWriteOnce]
          storageClassName: {{ .values.cache.storageClass }}
          resources:
            requests:
              storage: {{ .values.cache.size }}
    {{- else }}
    emptyDir:
      sizeLimit: {{ .values.cache.size }}
    {{- end }}
  - name: scratch
    emptyDir:
      sizeLimit: 8Gi
  {{- with .top.Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
