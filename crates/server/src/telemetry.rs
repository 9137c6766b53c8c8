//! Logs on standard error, and traces to an OpenTelemetry collector where one is named.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::settings::{LogFormat, LogLevel, Settings};

/// Ends the export of traces in order.
pub struct Telemetry(Option<SdkTracerProvider>);

/// Starts logging, and exporting where that is set. Once in a process.
pub fn start(settings: &Settings) -> Result<Telemetry, String> {
    let level = match settings.log {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // Only our own: what libraries say may hold what they were given.
    let ours = |meta: &tracing::Metadata<'_>| meta.target().starts_with("credence");
    let own = tracing_subscriber::filter::filter_fn(ours);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match settings.log_format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
    };
    let provider = if settings.otlp_endpoint.is_empty() {
        None
    } else {
        Some(exporter(&settings.otlp_endpoint).map_err(|e| format!("otlp_endpoint: {e}"))?)
    };
    let traces = provider.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("credence"))
            .with_filter(tracing_subscriber::filter::filter_fn(ours))
    });
    tracing_subscriber::registry()
        .with(lines.with_filter(level).with_filter(own))
        .with(traces)
        .try_init()
        .map_err(|e| e.to_string())?;
    Ok(Telemetry(provider))
}

fn exporter(endpoint: &str) -> Result<SdkTracerProvider, String> {
    let endpoint = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .build()
        .map_err(|e| e.to_string())?;
    let resource = Resource::builder().with_service_name("credence").build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

impl Telemetry {
    /// Sends what is left.
    pub fn stop(self) {
        if let Some(provider) = self.0 {
            // A collector that is gone must not keep a service from ending.
            let _ = provider.shutdown();
        }
    }
}
