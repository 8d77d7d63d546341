//! The metrics of a scan, which EXPLAIN ANALYZE shows.

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricCategory,
    MetricType, Time,
};

/// The metrics of one scan partition. Clones share the same counters.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "gpu"),
    expect(dead_code, reason = "without GPUs some stay 0")
)]
pub struct ScanMetrics {
    /// Output rows and elapsed time.
    pub baseline: BaselineMetrics,
    /// Requests to an object store for chunks; 0 for local stores. One request can be for several chunks.
    pub requests: Count,
    /// Encoded bytes read.
    pub bytes_fetched: Count,
    /// Of these, bytes that were read from files directly into the memory of a GPU.
    pub bytes_direct: Count,
    /// Bytes after decoding.
    pub bytes_decoded: Count,
    /// Chunks that exist and were read.
    pub chunks_read: Count,
    /// Chunks that are absent and were read as fill values.
    pub chunks_absent: Count,
    /// Of the chunks read, those that a GPU decoded.
    pub chunks_on_gpu: Count,
    /// Peak of the bytes reserved in the memory pool.
    pub memory_reserved: Gauge,
    /// Time of waiting for encoded bytes.
    pub fetch_time: Time,
    /// Time of copying to and from a GPU.
    pub copy_time: Time,
    /// Time of decompressing on a GPU.
    pub gpu_decode_time: Time,
    /// Time of counting or gathering on a GPU.
    pub gpu_count_time: Time,
    /// Time of decoding into elements on the host.
    pub decode_time: Time,
    /// Time of decoding and counting genotypes on the host (one step on bit-planes); with a GPU, of merging its counts.
    pub count_time: Time,
}

impl ScanMetrics {
    /// Metrics of `partition`, registered in `set`.
    pub fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let bytes = |name: &'static str| {
            MetricBuilder::new(set)
                .with_type(MetricType::Summary)
                .with_category(MetricCategory::Bytes)
                .counter(name, partition)
        };
        let time = |name: &'static str| {
            MetricBuilder::new(set)
                .with_type(MetricType::Summary)
                .subset_time(name, partition)
        };
        Self {
            baseline: BaselineMetrics::new(set, partition),
            bytes_fetched: bytes("bytes_fetched"),
            bytes_direct: bytes("bytes_direct"),
            bytes_decoded: bytes("bytes_decoded"),
            requests: MetricBuilder::new(set)
                .with_type(MetricType::Summary)
                .counter("requests", partition),
            chunks_read: MetricBuilder::new(set)
                .with_type(MetricType::Summary)
                .counter("chunks_read", partition),
            chunks_absent: MetricBuilder::new(set)
                .with_type(MetricType::Summary)
                .counter("chunks_absent", partition),
            chunks_on_gpu: MetricBuilder::new(set)
                .with_type(MetricType::Summary)
                .counter("chunks_on_gpu", partition),
            memory_reserved: MetricBuilder::new(set)
                .with_type(MetricType::Summary)
                .with_category(MetricCategory::Bytes)
                .gauge("memory_reserved", partition),
            fetch_time: time("fetch_time"),
            copy_time: time("copy_time"),
            gpu_decode_time: time("gpu_decode_time"),
            gpu_count_time: time("gpu_count_time"),
            decode_time: time("decode_time"),
            count_time: time("count_time"),
        }
    }
}
