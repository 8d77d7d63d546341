//! [`GpuPairs`]: the devices of a query, which count pairs for aggregates over pairs. Each counts some of the rows; the counts are added.

use std::sync::Arc;

use super::cuda::{CudaDevice, Layout, PairCounter, Staging, of_device};
use super::engine::{GpuEngine, Reserved};
use crate::counts::CountError;
use crate::counts::pairs::{PairDevice, SetRows, UnitCounter, UnitCounts, Units};
use crate::gpu::error::GpuError;

/// The devices of a query.
#[derive(Debug)]
pub struct GpuPairs {
    engine: Arc<GpuEngine>,
    devices: Vec<Arc<CudaDevice>>,
    staging: Arc<Staging>,
    is_required: bool,
}

impl GpuPairs {
    pub(super) fn new(
        engine: Arc<GpuEngine>,
        devices: Vec<Arc<CudaDevice>>,
        staging: Arc<Staging>,
        is_required: bool,
    ) -> Self {
        Self {
            engine,
            devices,
            staging,
            is_required,
        }
    }

    fn open(&self, units: Units, copies: usize) -> Result<DeviceCounters, GpuError> {
        let layout = Layout::try_new(units, copies);
        let bytes = layout.and_then(|layout| layout.device_bytes());
        let (Some(layout), Some(bytes)) = (layout, bytes) else {
            return Err(format!("counts of all pairs of {copies} copies do not fit").into());
        };
        let reserved = self.engine.reserve(bytes as u64)?;
        let open = |device| PairCounter::try_new(device, layout, &self.staging);
        let counters = self.devices.iter().map(open);
        Ok(DeviceCounters {
            counters: counters.collect::<Result<_, _>>()?,
            next: 0,
            _reserved: reserved,
        })
    }
}

impl PairDevice for GpuPairs {
    fn counter(
        &self,
        units: Units,
        copies: usize,
    ) -> Result<Option<Box<dyn UnitCounter>>, CountError> {
        match self.open(units, copies) {
            Ok(counters) => Ok(Some(Box::new(counters))),
            Err(error) if self.is_required => Err(of_device(error)),
            Err(error) => {
                log::debug!("pairs are counted on the host: {error}");
                Ok(None)
            }
        }
    }
}

/// A counter on each device.
#[derive(Debug)]
struct DeviceCounters {
    counters: Vec<PairCounter>,
    /// Which of them gets the next rows.
    next: usize,
    /// Ends after the counters.
    _reserved: Reserved,
}

impl UnitCounter for DeviceCounters {
    fn add(&mut self, rows: usize, set: &mut SetRows<'_>) -> Result<(), CountError> {
        let next = self.next;
        self.next = (next + 1) % self.counters.len().max(1);
        match self.counters.get_mut(next) {
            Some(counter) => counter.add(rows, set),
            None => Err(CountError::Device("there is no GPU".into())),
        }
    }

    fn take(&mut self) -> Result<UnitCounts, CountError> {
        let mut counts = vec![];
        for counter in &mut self.counters {
            counter.take(&mut counts)?;
        }
        match self.counters.first() {
            Some(counter) => Ok(counter.unit_counts(counts)),
            None => Err(CountError::Device("there is no GPU".into())),
        }
    }
}
