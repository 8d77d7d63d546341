//! Whether a scan is worth the GPU: a small model of both backends, fitted to measurements on an H200 beside 16 cores.
//!
//! On a GPU a frame takes as long as one thread block needs for it, however many others are decoded beside it, until some
//! thousands are in flight; so what counts is how many frames there are and how large each is. On the host what counts is
//! bytes and threads. Rates are decoded bytes per second.

use std::time::Duration;

use super::plan::{Estimate, FrameCodec};

/// What a scan would have to do.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Chunks of the array that are there and wanted.
    pub chunks: usize,
    /// What one of them is.
    pub estimate: Estimate,
    /// Whether the host counts on bit-planes, without un-shuffling.
    pub on_planes: bool,
    /// Whether Blosc has shuffled the elements, so that the host must undo that where it does not count on planes.
    pub shuffled: bool,
    /// Bytes of results that come back from the device.
    pub output: usize,
    /// Threads that the host would use.
    pub threads: usize,
    /// Decoded bytes that a batch holds.
    pub batch: usize,
}

/// What both would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// On the device, with a warm context.
    pub gpu: Duration,
    /// On the host.
    pub host: Duration,
}

/// Launches, waiting, and handing results over, however small the scan.
const FIXED: f64 = 1.5e-3;
/// Encoded bytes read, planned and copied per second; compressed genotypes are a twentieth of the decoded ones or less.
const COPIED: f64 = 20e9;
const COMPRESSED: f64 = 1.0 / 20.0;
/// Results copied to the host, and there into columns.
const RETURNED: f64 = 20e9;
/// How much of a core each of many threads has.
const SHARED_CORES: f64 = 0.55;

impl Load {
    /// Predicts both times.
    pub fn predict(&self) -> Prediction {
        let decoded = self.chunks as f64 * self.estimate.decoded_bytes as f64;
        let rate = match (self.estimate.codec, self.on_planes, self.shuffled) {
            (Some(FrameCodec::Zstd), true, _) => 9e9,
            (Some(FrameCodec::Lz4), true, _) => 6e9,
            (Some(FrameCodec::Deflate), _, _) => 0.5e9,
            (None, _, _) => 8e9,
            (_, _, true) => 2.6e9,
            (Some(FrameCodec::Zstd), _, false) => 2.5e9,
            (Some(FrameCodec::Lz4), _, false) => 4.5e9,
        };
        // The threads of a core share what the rates need: many threads reach about six tenths of as many cores.
        let threads = (self.threads as f64 * SHARED_CORES).max(1.0);
        let host = decoded / rate / threads;

        let frames = self.chunks as f64 * self.estimate.frames as f64;
        let frame = decoded / frames.max(1.0);
        // Seconds that one frame takes alone, and the most bytes per second of many.
        let (latency, peak) = match (self.estimate.codec, self.on_planes || self.shuffled) {
            (None, _) => (0.0, 1e12),
            // Bit-shuffled frames of genotypes are mostly zeros, which are not decoded.
            (Some(FrameCodec::Zstd), true) => (0.3e-3 + frame * 1.5e-9, 1.2e12),
            (Some(FrameCodec::Zstd), false) => (0.2e-3 + frame * 5.8e-9, 2.5e11),
            (Some(FrameCodec::Lz4), true) => (0.1e-3 + frame * 2e-9, 1e12),
            (Some(FrameCodec::Lz4), false) => (0.1e-3 + frame * 8e-9, 2.5e11),
            (Some(FrameCodec::Deflate), _) => (0.2e-3 + frame * 3e-9, 2e11),
        };
        let batches = (decoded / self.batch.max(1) as f64).ceil().max(1.0);
        let decode = batches * latency.max(decoded / batches / peak);
        let encoded = match self.estimate.codec {
            None => decoded,
            Some(_) => decoded * COMPRESSED,
        };
        let gpu = FIXED + decode + encoded / COPIED + self.output as f64 / RETURNED;
        Prediction {
            gpu: Duration::from_secs_f64(gpu),
            host: Duration::from_secs_f64(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(chunks: usize, decoded_bytes: usize, frames: usize, planes: bool) -> Load {
        let estimate = Estimate {
            decoded_bytes,
            frames,
            codec: Some(FrameCodec::Zstd),
        };
        Load {
            chunks,
            estimate,
            on_planes: planes,
            shuffled: planes,
            output: chunks * 16_000,
            threads: 16,
            batch: 1 << 30,
        }
    }

    #[test]
    fn many_small_frames_are_the_gpus_few_large_ones_the_hosts() {
        let default_store = load(1699, 2_940_000, 6, true).predict();
        assert!(default_store.gpu < default_store.host, "{default_store:?}");
        let large_frames = load(340, 20_000_000, 1, false).predict();
        assert!(large_frames.gpu > large_frames.host, "{large_frames:?}");
        let region = load(3, 2_940_000, 6, true).predict();
        assert!(region.gpu > region.host, "{region:?}");
    }
}
