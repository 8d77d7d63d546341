//! Chooses between GPU and host for a scan by comparing the predicted times.

use super::device::planner;
use crate::gpu::{self, EngineStatus, GpuEngine, Load};
use crate::scan::chunks::{ArrayLoad, HostReason};

/// The reason for the GPU, with `vcz.backend = 'auto'`.
///
/// # Errors
/// The reason for the host.
pub fn choose(loads: Vec<ArrayLoad<'_>>) -> Result<String, HostReason> {
    let loads = loads.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let engine = match gpu::status() {
        EngineStatus::Ready(engine) => engine,
        EngineStatus::Off(reason) => return Err(reason.into()),
        EngineStatus::Idle | EngineStatus::Starting => {
            // Tables may have been opened with another backend.
            gpu::start();
            return Err("the GPU is still being started".into());
        }
    };
    for load in &loads {
        engine.decodes(&load.estimate)?;
    }
    compare(loads, &engine)
}

fn load(load: &ArrayLoad<'_>) -> Result<Load, HostReason> {
    let planner = planner(load.spec, load.chain, load.only_calls)
        .map_err(|reason| format!("{}: {reason}", load.spec.array.name))?;
    Ok(Load {
        chunks: load.chunks,
        estimate: planner.estimate(),
        on_planes: load.only_calls && load.chain.as_plain_blosc().is_some(),
        shuffled: load.chain.summary().contains("shuffle"),
        selects: load.selects,
        output: load.output,
        threads: load.threads,
        // Set once there is an engine.
        batch: 0,
    })
}

fn compare(loads: Vec<Load>, engine: &GpuEngine) -> Result<String, HostReason> {
    let (mut gpu, mut host, mut frames) = (0.0, 0.0, 0);
    let threads = loads.first().map_or(1, |load| load.threads);
    for load in loads {
        let batch = engine.queue().room(&load.estimate);
        let predicted = Load { batch, ..load }.predict();
        gpu += predicted.gpu.as_secs_f64();
        host += predicted.host.as_secs_f64();
        frames += load.chunks * load.estimate.frames;
    }
    let numbers = format!(
        "about {} ms for {frames} frames against {} ms on {threads} threads",
        rounded(gpu * 1e3),
        rounded(host * 1e3)
    );
    if gpu < host {
        Ok(numbers)
    } else {
        Err(format!("the GPU would take {numbers}").into())
    }
}

/// A number of milliseconds with about two digits.
fn rounded(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
