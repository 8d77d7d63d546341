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
    /// Whether elements of some samples are wanted beside or instead of counts.
    pub selects: bool,
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
/// Encoded bytes read, planned and copied per second.
const COPIED: f64 = 20e9;
/// Compressed genotypes are so many times smaller than decoded ones, or more.
pub const COMPRESSED: f64 = 20.0;
/// Results copied to the host, and there into columns.
const RETURNED: f64 = 20e9;
/// How much of a core each of many threads has.
const SHARED_CORES: f64 = 0.55;

/// Frames larger than the blocks of default stores: a batch waits for many of them and may hold more than others.
const LARGE_FRAME: usize = 768 << 10;
/// Device memory that is taken and given back for a wide batch, in bytes per second.
const TAKEN: f64 = 2e12;

/// How a device decodes the frames of an array.
#[derive(Debug, Clone, Copy)]
struct Decoding {
    /// Seconds that one frame takes alone.
    latency: f64,
    /// By how much each doubling of the frames in flight adds to that.
    crowding: f64,
    /// Decoded bytes per second of many.
    peak: f64,
}

impl Decoding {
    /// Of frames of `frame` decoded bytes. Those that are bit-shuffled are mostly zeros, which are not decoded.
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

    /// Seconds for so many frames, of so many bytes together, at the same time.
    fn seconds(self, frames: f64, bytes: f64) -> f64 {
        let crowded = 1.0 + self.crowding * frames.max(1.0).log2();
        (self.latency * crowded).max(bytes / self.peak)
    }
}

/// For chunks of large frames, how long a batch waits for more of them: a part of what one frame takes. `None` for others.
pub fn patience(estimate: &Estimate) -> Option<Duration> {
    let frame = estimate.decoded_bytes / estimate.frames.max(1);
    if estimate.codec.is_none() || estimate.frames == 0 || frame < LARGE_FRAME {
        return None;
    }
    let decoding = Decoding::of(estimate.codec, false, frame as f64);
    // Our own decoder came to be twice as fast; the wait, with which whole stores were measured, did not change.
    let part = match estimate.codec {
        Some(FrameCodec::Zstd) => 2.0,
        _ => 4.0,
    };
    Some(Duration::from_secs_f64(decoding.latency / part))
}

impl Load {
    /// Predicts both times.
    pub fn predict(&self) -> Prediction {
        let decoded = self.chunks as f64 * self.estimate.decoded_bytes as f64;
        let rate = match (self.estimate.codec, self.on_planes, self.shuffled) {
            // Blocks are un-shuffled for the samples that are selected, where there are some.
            (Some(FrameCodec::Zstd), true, _) if self.selects => 5.5e9,
            (Some(FrameCodec::Zstd), true, _) => 9e9,
            (Some(FrameCodec::Lz4), true, _) => 6e9,
            (Some(FrameCodec::Deflate), _, _) => 0.5e9,
            (None, _, _) => 8e9,
            (_, _, true) => 2.6e9,
            (Some(FrameCodec::Zstd), _, false) => 2.4e9,
            (Some(FrameCodec::Lz4), _, false) => 4.5e9,
        };
        // The threads of a core share what the rates need: many threads reach about six tenths of as many cores.
        let threads = (self.threads as f64 * SHARED_CORES).max(1.0);
        let host = decoded / rate / threads;

        let frames = self.chunks as f64 * self.estimate.frames as f64;
        let frame = decoded / frames.max(1.0);
        let shuffled = self.on_planes || self.shuffled;
        let decoding = Decoding::of(self.estimate.codec, shuffled, frame);
        let batches = (decoded / self.batch.max(1) as f64).ceil().max(1.0);
        let decode = batches * decoding.seconds(frames / batches, decoded / batches);
        let taken = match patience(&self.estimate) {
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
    fn many_small_frames_are_the_gpus_few_the_hosts() {
        let (gpu, host) = milliseconds(default_store(1699));
        assert!(gpu < host, "{gpu} {host}");
        let (gpu, host) = milliseconds(default_store(3));
        assert!(gpu > host, "{gpu} {host}");
    }

    /// The same genotypes as 340 zstd frames of 20 MB: a device takes 69 ms to decode all of them at the same time, and hardly less
    /// for a few, and 96 to 118 ms for the query; the host took 240 to 335 ms on 16 threads.
    #[test]
    fn large_frames_are_the_gpus_only_where_many_are_in_flight() {
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

    /// The kernel alone, of plain zstd frames of 2,940 haplotypes (`benches/gpu/frames.py`, `zstd.cu`): so many of so many bytes in so many
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

    /// `SELECT call_genotype` of 318,000 variants: 53 ms on the device, most of it for bringing 0.9 GB back; 41 on the host.
    #[test]
    fn what_only_comes_back_again_is_the_hosts() {
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
    fn a_few_samples_of_many_chunks_are_the_gpus() {
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
        assert_eq!(patience(&default_store(1).estimate), None);
        assert_eq!(patience(&estimate(20_000_000, 39, zstd)), None);
        assert_eq!(patience(&estimate(20_000_000, 0, None)), None);
        let large = patience(&estimate(20_000_000, 1, zstd)).unwrap();
        assert!(large > Duration::from_millis(20) && large < Duration::from_millis(40));
        let middle = patience(&estimate(1 << 20, 1, zstd)).unwrap();
        assert!(middle < Duration::from_millis(3), "{middle:?}");
    }
}
