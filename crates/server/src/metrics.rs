//! Metrics as Prometheus text over HTTP. They are read off the broker when somebody asks; nothing is counted twice.
//!
//! Kafka's names are those that the usual rules of its JMX exporter make, so that dashboards find them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fencepost_broker::{Broker, Lane, Standing};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::edge::RealEdge;
use crate::http::{self, HttpLimits};
use crate::lag::{self, LagPage};
use crate::logging::log_lines_dropped;

const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page, while the server runs.
pub(crate) struct Metrics {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
    lag: LagPage,
}

impl Metrics {
    /// Listens on `listen` (HOST:PORT; port 0 picks a free one) until `stop` changes.
    pub(crate) async fn serve(
        broker: &Arc<Broker>,
        edge: &RealEdge,
        listen: &str,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<Self> {
        let socket = TcpListener::bind(listen).await?;
        let address = socket.local_addr()?;
        let mut registry = Registry::default();
        let lateness = edge.timer(Lane::Prompt).lateness().clone();
        let help = "From a deadline until what was due then has been decided";
        registry.register_with_unit("fencepost_deadline_lateness", help, Unit::Seconds, lateness);
        registry.register_collector(Box::new(Readings(Arc::downgrade(broker))));
        let lag = LagPage::new(broker);
        let router = Router::new()
            .route("/metrics", get(page).with_state(Arc::new(registry)))
            .route("/lag", get(lag::page).with_state(lag.clone()));
        let serving = tokio::spawn(http::serve(socket, router, HttpLimits::DEFAULT, stop));
        Ok(Self { address, serving, lag })
    }

    /// Waits for the end, after `stop` has changed.
    pub(crate) async fn stop(self) {
        // It may have ended already.
        let _ = self.serving.await;
        self.lag.stop().await;
    }
}

async fn page(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(CONTENT_TYPE, CONTENT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What is read off the broker. A scraper's connection may outlive it, and must not hold its directory.
struct Readings(Weak<Broker>);

impl fmt::Debug for Readings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Readings")
    }
}

/// Name, meaning and reading of a gauge that each partition has.
type PartitionGauge = (&'static str, &'static str, fn(&Standing) -> i64);

const PARTITION_GAUGES: [PartitionGauge; 6] = [
    (
        "kafka_cluster_partition_laststableoffsetlag",
        "Offsets from the last stable offset to the high watermark",
        |at| at.high_watermark.0 - at.last_stable_offset.0,
    ),
    ("kafka_log_log_logstartoffset", "The first offset that may be read", |at| at.log_start_offset.0),
    ("kafka_log_log_logendoffset", "The offset after the last record", |at| at.log_end_offset.0),
    ("fencepost_partition_high_watermark", "Records below it are acknowledged", |at| at.high_watermark.0),
    ("fencepost_partition_last_stable_offset", "Records below it are decided", |at| at.last_stable_offset.0),
    ("fencepost_partition_open_transactions", "Transactions with records and no marker yet", |at| {
        at.open_transactions as i64
    }),
];

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(broker) = self.0.upgrade() else { return Ok(()) };
        let standings = broker.standings();
        let producers = broker.producer_entries() as i64;
        let gauges = [
            ("kafka_server_replicamanager_produceridcount", "Producer entries of all partitions", producers),
            ("fencepost_producer_entries", "Producer entries of all partitions", producers),
            ("fencepost_transactional_ids", "Transactional ids known", broker.transactional_ids() as i64),
            (
                "fencepost_transactional_ids_max",
                "Transactional ids there is room for",
                broker.transactional_ids_max(),
            ),
            ("kafka_server_replicamanager_partitioncount", "Partitions served", standings.len() as i64),
            ("kafka_server_replicamanager_leadercount", "Partitions led", standings.len() as i64),
            ("kafka_controller_kafkacontroller_activecontrollercount", "Active controllers", 1),
        ];
        for (name, help, value) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        let counters = [
            ("fencepost_producer_entries_evicted", "Producers forgotten early", broker.producers_evicted()),
            ("fencepost_transaction_markers", "Transaction markers appended", broker.markers_written()),
            ("fencepost_producer_entries_refused", "Batches refused: no room", broker.producers_refused()),
            (
                "fencepost_transactional_ids_refused",
                "New ids refused: no room",
                broker.transactional_ids_refused(),
            ),
        ];
        let dropped =
            ("fencepost_log_lines_dropped", "Log lines that stderr did not take", log_lines_dropped());
        for (name, help, value) in counters.into_iter().chain([dropped]) {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        for (name, help, reading) in PARTITION_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for at in &standings {
                let labels = [
                    ("topic", at.partition.topic.to_string()),
                    ("partition", at.partition.partition.0.to_string()),
                ];
                ConstGauge::new(reading(at)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
