//! [`GpuPairs`]: the devices of a query, which count pairs for aggregates over pairs. Each counts some of the rows; the counts are added.

use std::sync::Arc;

use super::cuda::{CudaDevice, Layout, PairCounter, Staging, of_device};
use super::memory_budget::{MemoryBudget, Reserved};
use crate::counts::CountError;
use crate::counts::pairs::{PairDevice, SetRows, UnitCounter, UnitCounts, Units};
use crate::gpu::error::GpuError;

/// The devices of a query.
#[derive(Debug)]
pub struct GpuPairs {
    budget: Arc<MemoryBudget>,
    devices: Vec<Arc<CudaDevice>>,
    staging: Arc<Staging>,
    is_required: bool,
}

impl GpuPairs {
    pub(super) fn new(
        budget: Arc<MemoryBudget>,
        devices: Vec<Arc<CudaDevice>>,
        staging: Arc<Staging>,
        is_required: bool,
    ) -> Self {
        Self {
            budget,
            devices,
            staging,
            is_required,
        }
    }

    /// A counter on each device; `None` if there is too little memory.
    fn open(&self, units: Units, copies: usize) -> Result<Option<DeviceCounters>, GpuError> {
        let sizes = Layout::try_new(units, copies)
            .and_then(|layout| Some((layout, layout.device_bytes()?)));
        let Some((layout, bytes)) = sizes else {
            return Ok(None);
        };
        let reserved = match self.budget.reserve(bytes as u64) {
            Ok(reserved) => reserved,
            Err(reason) => {
                log::debug!(
                    "the host counts pairs: {bytes} bytes of GPU memory are needed: {reason}"
                );
                return Ok(None);
            }
        };
        let open = |device| PairCounter::try_new(device, layout, &self.staging);
        let counters = self.devices.iter().map(open);
        Ok(Some(DeviceCounters {
            counters: counters.collect::<Result<_, _>>()?,
            next: 0,
            stride: layout.stride(),
            _reserved: reserved,
        }))
    }
}

impl PairDevice for GpuPairs {
    fn counter(
        &self,
        units: Units,
        copies: usize,
    ) -> Result<Option<Box<dyn UnitCounter>>, CountError> {
        match self.open(units, copies) {
            Ok(counters) => Ok(counters.map(|counters| Box::new(counters) as _)),
            Err(error) if self.is_required => Err(of_device(error)),
            Err(error) => {
                log::warn!("the host counts pairs instead of the GPU: {error}");
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
    stride: usize,
    /// Dropped after the counters.
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

    fn take(self: Box<Self>) -> Result<UnitCounts, CountError> {
        let Self {
            mut counters,
            stride,
            _reserved,
            ..
        } = *self;
        for counter in &mut counters {
            counter.finish()?;
        }
        let mut counts = vec![];
        for counter in counters {
            counter.take(&mut counts)?;
        }
        Ok(UnitCounts::new(stride, counts))
    }
}
