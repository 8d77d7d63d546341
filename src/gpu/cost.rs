//! Predicts whether a scan is faster on a GPU: a small cost model of both backends, fitted to measurements on an H200 with 16
//! cores.
//!
//! On a GPU, a frame takes as long as one thread block needs for it, however many others are decoded at the same time, up to
//! some thousands in flight. So the cost depends on the number of frames and their size; on the host, on bytes and threads.
//! Rates are decoded bytes per second.

use std::time::Duration;

use super::plan::{Estimate, FrameCodec};

/// The work of a scan.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Chunks of the array that are stored and wanted.
    pub chunks: usize,
    /// The estimate for one of them.
    pub estimate: Estimate,
    /// Whether the host counts on bit-planes without un-shuffling.
    pub on_planes: bool,
    /// Whether Blosc shuffled the elements, which the host must undo where it does not count on planes.
    pub shuffled: bool,
    /// Whether elements of some samples are wanted, with or without counts.
    pub selects: bool,
    /// Bytes of results that are copied from the device.
    pub output: usize,
    /// Threads that the host would use.
    pub threads: usize,
    /// Decoded bytes that a batch holds.
    pub batch: usize,
}

/// Predicted times of both backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// On the device, with an existing context.
    pub gpu: Duration,
    /// On the host.
    pub host: Duration,
}

/// Seconds for launches, waiting and returning results, for any scan.
const FIXED: f64 = 1.5e-3;
/// Encoded bytes read, planned and copied per second.
const COPIED: f64 = 20e9;
/// Compressed genotypes are at least this many times smaller than decoded ones.
pub const COMPRESSED: f64 = 20.0;
/// Bytes of results per second that are copied to the host and into columns.
const RETURNED: f64 = 20e9;
/// Share of a core that each of many hardware threads has.
const SHARED_CORES: f64 = 0.55;

/// Smallest large frame, in decoded bytes; the blocks of default stores are smaller. See `queue_state` for their batches.
const LARGE_FRAME: usize = 768 << 10;
/// Device memory that is allocated and freed for a large-frame batch, in bytes per second.
const TAKEN: f64 = 2e12;

/// How a device decodes the frames of an array.
#[derive(Debug, Clone, Copy)]
struct Decoding {
    /// Seconds for one frame alone.
    latency: f64,
    /// Relative increase for each doubling of the frames in flight.
    crowding: f64,
    /// Decoded bytes per second of many frames.
    peak: f64,
}

impl Decoding {
    /// For frames of `frame` decoded bytes. Bit-shuffled frames are mostly zeros, which are not decoded.
    fn of(codec: Option<FrameCodec>, shuffled: bool, frame: f64) -> Self {
        let (latency, crowding, peak) = match (codec, shuffled) {
            (None, _) => (0.0, 0.0, 1e12),
            (Some(FrameCodec::Zstd), true) => (0.3e-3 + frame * 1.5e-9, 0.0, 1.2e12),
            // 57 ms for one frame of 20 MB, 69 for 340; 34 ms for 96 of 10 MB (benches/gpu/zstd.cu).
            (Some(FrameCodec::Zstd), false) => (0.1e-3 + frame * 2.86e-9, 0.025, 5e11),
            (Some(FrameCodec::Lz4), true) => (0.1e-3 + frame * 2e-9, 0.0, 1e12),
            (Some(FrameCodec::Lz4), false) => (0.1e-3 + frame * 8e-9, 0.045, 2.5e11),
            (Some(FrameCodec::Deflate), _) => (0.2e-3 + frame * 3e-9, 0.0, 2e11),
        };
        Self {
            latency,
            crowding,
            peak,
        }
    }

    /// Seconds for this many frames at the same time, with this many bytes in total.
    fn seconds(self, frames: f64, bytes: f64) -> f64 {
        let crowded = 1.0 + self.crowding * frames.max(1.0).log2();
        (self.latency * crowded).max(bytes / self.peak)
    }
}

/// How long a batch of large frames waits for more chunks: a fraction of the time for one frame. `None` for other chunks.
pub fn max_wait(estimate: &Estimate) -> Option<Duration> {
    let frame = estimate.decoded_bytes / estimate.frames.max(1);
    if estimate.codec.is_none() || estimate.frames == 0 || frame < LARGE_FRAME {
        return None;
    }
    let decoding = Decoding::of(estimate.codec, false, frame as f64);
    // For zstd, `latency` is that of our kernel, twice as fast as nvCOMP. Whole stores were measured with this wait.
    let part = match estimate.codec {
        Some(FrameCodec::Zstd) => 2.0,
        _ => 4.0,
    };
    Some(Duration::from_secs_f64(decoding.latency / part))
}

impl Load {
    /// Predicts the times of both backends.
    pub fn predict(&self) -> Prediction {
        let decoded = self.chunks as f64 * self.estimate.decoded_bytes as f64;
        let rate = match (self.estimate.codec, self.on_planes, self.shuffled) {
            // Selecting samples needs blocks with calls to be un-shuffled.
            (Some(FrameCodec::Zstd), true, _) if self.selects => 5.5e9,
            (Some(FrameCodec::Zstd), true, _) => 9e9,
            (Some(FrameCodec::Lz4), true, _) => 6e9,
            (Some(FrameCodec::Deflate), _, _) => 0.5e9,
            (None, _, _) => 8e9,
            (_, _, true) => 2.6e9,
            (Some(FrameCodec::Zstd), _, false) => 2.4e9,
            (Some(FrameCodec::Lz4), _, false) => 4.5e9,
        };
        // The hardware threads of a core share its units, so n threads are worth about 0.6 n cores.
        let threads = (self.threads as f64 * SHARED_CORES).max(1.0);
        let host = decoded / rate / threads;

        let frames = self.chunks as f64 * self.estimate.frames as f64;
        let frame = decoded / frames.max(1.0);
        let shuffled = self.on_planes || self.shuffled;
        let decoding = Decoding::of(self.estimate.codec, shuffled, frame);
        let batches = (decoded / self.batch.max(1) as f64).ceil().max(1.0);
        let decode = batches * decoding.seconds(frames / batches, decoded / batches);
        let taken = match max_wait(&self.estimate) {
            Some(_) => decoded / TAKEN,
            None => 0.0,
        };
        let encoded = match self.estimate.codec {
            None => decoded,
            Some(_) => decoded / COMPRESSED,
        };
        let gpu = FIXED + decode + taken + encoded / COPIED + self.output as f64 / RETURNED;
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
            selects: false,
            output: chunks * 16_000,
            threads: 16,
            batch: 800 << 20,
        }
    }

    /// Milliseconds on the device and on the host.
    fn milliseconds(load: Load) -> (f64, f64) {
        let Prediction { gpu, host } = load.predict();
        (gpu.as_secs_f64() * 1e3, host.as_secs_f64() * 1e3)
    }

    /// Whether `found` is within this factor of what was measured.
    fn near(found: f64, measured: f64, factor: f64) -> bool {
        found < measured * factor && measured < found * factor
    }

    /// The default layout of 2,940 haplotypes × 1.7 M variants: chunks of 1,000 variants, blocks of 512 KiB.
    fn default_store(chunks: usize) -> Load {
        load(chunks, 2_940_000, 6, true)
    }

    #[test]
    fn many_small_frames_are_faster_on_a_gpu_and_few_on_the_host() {
        let (gpu, host) = milliseconds(default_store(1699));
        assert!(gpu < host, "{gpu} {host}");
        let (gpu, host) = milliseconds(default_store(3));
        assert!(gpu > host, "{gpu} {host}");
    }

    /// The same genotypes as 340 zstd frames of 20 MB: a device takes 69 ms to decode all of them at the same time, hardly less for
    /// a few, and 96 to 118 ms for the query; the host took 240 to 335 ms with 16 threads.
    #[test]
    fn large_frames_are_faster_on_a_gpu_only_if_many_are_in_flight() {
        let of = |chunks: usize, batch: usize| {
            let output = chunks * 160_000;
            Load {
                output,
                batch,
                ..load(chunks, 20_000_000, 1, false)
            }
        };
        let (gpu, host) = milliseconds(of(340, 10 << 30));
        assert!(
            near(gpu, 105.0, 1.15) && near(host, 300.0, 1.15),
            "{gpu} {host}"
        );
        // In batches of an eighth it takes eight times as long.
        let (gpu, host) = milliseconds(of(340, 800 << 20));
        assert!(gpu > host, "{gpu} {host}");
        let (gpu, host) = milliseconds(of(30, 10 << 30));
        assert!(gpu > 2.0 * host, "{gpu} {host}");
        let (gpu, host) = milliseconds(of(680, 16 << 30));
        assert!(2.0 * gpu < host, "{gpu} {host}");
    }

    /// The kernel alone, on plain zstd frames of 2,940 haplotypes (`benches/gpu/frames.py`, `zstd.cu`): number of frames, bytes of each,
    /// milliseconds.
    #[test]
    fn frames_of_other_sizes_take_what_was_measured() {
        for (frames, len, measured) in [
            (1_u64, 64_u64 << 10, 0.25),
            (14_648, 64 << 10, 1.9),
            (1, 256 << 10, 0.82),
            (3_662, 256 << 10, 1.9),
            (1, 1 << 20, 3.0),
            (915, 1 << 20, 4.7),
            (1, 10_000_000, 29.0),
            (96, 10_000_000, 34.0),
            (1, 20_000_000, 57.5),
            (64, 20_000_000, 67.0),
            (340, 20_000_000, 69.0),
        ] {
            let decoding = Decoding::of(Some(FrameCodec::Zstd), false, len as f64);
            let found = decoding.seconds(frames as f64, (frames * len) as f64) * 1e3;
            assert!(
                near(found, measured, 1.35),
                "{frames} of {len}: {found}, measured {measured}"
            );
        }
    }

    /// `SELECT call_genotype` of 318,000 variants: 53 ms on the device, most of it for copying 0.9 GB back; 41 on the host.
    #[test]
    fn returning_all_elements_is_faster_on_the_host() {
        let all = Load {
            on_planes: false,
            output: 318_000 * 2_940,
            ..default_store(319)
        };
        let (gpu, host) = milliseconds(all);
        assert!(
            near(gpu, 53.0, 1.2) && near(host, 41.0, 1.2),
            "{gpu} {host}"
        );
        assert!(gpu > 1.1 * host, "{gpu} {host}");
    }

    /// `select_samples` of 5 % of the samples of the whole store: 27 ms on the device, 96 to 109 on the host.
    #[test]
    fn a_few_samples_of_many_chunks_are_faster_on_a_gpu() {
        let some = Load {
            selects: true,
            output: 1_700_000 * 2 * 73,
            ..default_store(1699)
        };
        let (gpu, host) = milliseconds(some);
        assert!(
            near(gpu, 27.0, 1.35) && near(host, 100.0, 1.2),
            "{gpu} {host}"
        );
    }

    #[test]
    fn batches_wait_for_large_frames_only() {
        let estimate = |decoded_bytes: usize, frames: usize, codec: Option<FrameCodec>| Estimate {
            decoded_bytes,
            frames,
            codec,
        };
        let zstd = Some(FrameCodec::Zstd);
        assert_eq!(max_wait(&default_store(1).estimate), None);
        assert_eq!(max_wait(&estimate(20_000_000, 39, zstd)), None);
        assert_eq!(max_wait(&estimate(20_000_000, 0, None)), None);
        let large = max_wait(&estimate(20_000_000, 1, zstd)).unwrap();
        assert!(large > Duration::from_millis(20) && large < Duration::from_millis(40));
        let middle = max_wait(&estimate(1 << 20, 1, zstd)).unwrap();
        assert!(middle < Duration::from_millis(3), "{middle:?}");
    }
}
