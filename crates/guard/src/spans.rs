//! A span of each call for an OpenTelemetry collector, by the conventions for the Model Context Protocol and for generative AI
//! (open-telemetry/semantic-conventions-genai, status *development*). Off unless `[telemetry]` is in `guard.toml`.
//!
//! | | |
//! |---|---|
//! | name, kind | `tools/call TOOL`, client |
//! | `mcp.method.name`, `gen_ai.operation.name`, `gen_ai.tool.name` | `tools/call`, `execute_tool`, the tool |
//! | `jsonrpc.request.id`, `mcp.session.id` | the request's id; the guard's name of the session, not the secret that resumes it |
//! | `network.transport`, `server.address`, `server.port` | `pipe`, `tcp` or `unix`; of a URL |
//! | `error.type` | `tool_error`, `protocol_error`, `unanswered`, `withheld` |
//! | `credence.call`, `credence.server`, `credence.verdict`, `credence.posterior`, `credence.withheld`, `credence.mode` | the guard's own |
//!
//! Arguments and results are never in it. The caller's `traceparent` (`params._meta`) is the parent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use credence_protocol::receipt::{CallOutcome, Receipt};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
        TracerProvider,
    },
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use url::Url;

use crate::{Error, identity::Launch};

/// Sends a span of each call. What cannot be sent is dropped by the exporter: nothing waits for it.
pub struct Spans {
    provider: SdkTracerProvider,
    tracer: opentelemetry_sdk::trace::SdkTracer,
    transport: Vec<KeyValue>,
}

/// One call, as a span tells it.
pub struct SpanOfCall<'a> {
    /// Its receipt.
    pub receipt: &'a Receipt,
    /// The caller's `traceparent`.
    pub traceparent: Option<&'a str>,
    /// The session, where the caller has one.
    pub session: Option<&'a str>,
    /// The client did not get the result.
    pub withheld: bool,
    /// What was done about a result that is not believed.
    pub mode: &'static str,
}

impl Spans {
    /// Sends to the collector at `endpoint`.
    pub fn start(endpoint: &Url, launch: Option<&Launch>) -> Result<Self, Error> {
        let failed = |why: String| Error::Content(format!("telemetry.otlp_endpoint: {why}"));
        let traces = format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(traces)
            .with_timeout(Duration::from_secs(5))
            .build()
            .map_err(|e| failed(e.to_string()))?;
        let resource = Resource::builder().with_service_name("credence-guard").build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let mut transport = Vec::new();
        match launch {
            Some(Launch::Url(url)) => {
                transport.push(KeyValue::new("network.transport", "tcp"));
                transport.push(KeyValue::new("network.protocol.name", "http"));
                transport.push(KeyValue::new("server.address", url.host_str().unwrap_or_default().to_owned()));
                transport.extend(url.port_or_known_default().map(|port| KeyValue::new("server.port", i64::from(port))));
            }
            Some(Launch::Socket(path)) => {
                transport.push(KeyValue::new("network.transport", "unix"));
                transport.push(KeyValue::new("server.address", path.display().to_string()));
            }
            _ => transport.push(KeyValue::new("network.transport", "pipe")),
        }
        let tracer = provider.tracer("credence-guard");
        Ok(Self { provider, tracer, transport })
    }

    /// Tells of a call that has ended.
    pub fn call(&self, call: &SpanOfCall<'_>) {
        let receipt = call.receipt;
        let began = UNIX_EPOCH + Duration::from_micros(receipt.started_at.micros().unsigned_abs());
        let took = Duration::try_from_secs_f64(receipt.execution_ms.unwrap_or_default() / 1000.0).unwrap_or_default();
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", "tools/call"),
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", receipt.tool.clone()),
            KeyValue::new("credence.call", receipt.call.to_string()),
            KeyValue::new("credence.server", receipt.server.clone()),
            KeyValue::new("credence.mode", call.mode),
            KeyValue::new("credence.withheld", call.withheld),
        ];
        attributes.extend(self.transport.iter().cloned());
        let text = |name: &'static str, value: Option<String>| value.map(|value| KeyValue::new(name, value));
        let request = receipt.request.as_ref().map(|id| id.trim_matches('"').to_owned());
        attributes.extend(text("jsonrpc.request.id", request));
        attributes.extend(text("mcp.session.id", call.session.map(str::to_owned)));
        attributes.extend(text("gen_ai.agent.id", receipt.agent.as_ref().map(ToString::to_string)));
        attributes.extend(text("credence.verdict", receipt.verdict.map(|verdict| verdict.to_string())));
        attributes.extend(receipt.posterior.map(|posterior| KeyValue::new("credence.posterior", posterior)));
        let error = match receipt.outcome {
            _ if call.withheld => Some("withheld"),
            CallOutcome::ToolError => Some("tool_error"),
            CallOutcome::ProtocolError => Some("protocol_error"),
            CallOutcome::Unanswered => Some("unanswered"),
            _ => None,
        };
        attributes.extend(error.map(|error| KeyValue::new("error.type", error)));
        let builder = self
            .tracer
            .span_builder(format!("tools/call {}", receipt.tool))
            .with_kind(SpanKind::Client)
            .with_start_time(began)
            .with_attributes(attributes);
        let parent = call.traceparent.and_then(remote_parent).unwrap_or_default();
        let mut span = builder.start_with_context(&self.tracer, &parent);
        if let Some(error) = error {
            span.set_status(Status::error(error));
        }
        let ended: SystemTime = began + took;
        span.end_with_timestamp(ended);
    }

    /// Sends what is left.
    pub fn finish(&self) {
        // A collector that is gone must not keep a guard from ending.
        let _ = self.provider.shutdown_with_timeout(Duration::from_secs(3));
    }
}

/// `00-TRACE-SPAN-FLAGS`, as the W3C writes it; anything else is no parent.
fn remote_parent(traceparent: &str) -> Option<Context> {
    let parts: Vec<&str> = traceparent.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { return None };
    let plain = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    if version != "00" || !plain(trace, 32) || !plain(span, 16) || !plain(flags, 2) {
        return None;
    }
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then(|| Context::new().with_remote_span_context(context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_standard_writes_is_a_parent() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = remote_parent(good).unwrap();
        assert_eq!(parent.span().span_context().trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert!(remote_parent(bad).is_none(), "{bad}");
        }
    }
}
