//! [`GpuPairs`]: the devices of a query, which count pairs for aggregates over pairs. Each counts some of the rows; the counts are added.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cuda::{
    CudaDevice, Layout, PairCounter, Staging, WeightedLayout, WeightedPairs, of_device,
};
use super::memory_budget::{MemoryBudget, Reserved};
use crate::counts::pairs::{
    ClassWeights, PairDevice, SetRows, UnitCounter, UnitCounts, Units, WeightedCounter,
    WeightedSums,
};
use crate::counts::{CountError, Workers};
use crate::gpu::error::GpuError;

/// The devices of a query.
#[derive(Debug)]
pub struct GpuPairs {
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) devices: Vec<Arc<CudaDevice>>,
    pub(super) staging: Arc<Staging>,
    pub(super) is_required: bool,
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

    /// Memory of each device; `None` if there is too little.
    fn reserve(&self, bytes: Option<usize>) -> Option<Reserved> {
        let bytes = bytes?;
        match self.budget.reserve(bytes as u64) {
            Ok(reserved) => Some(reserved),
            Err(reason) => {
                log::debug!(
                    "the host counts pairs: {bytes} bytes of GPU memory are needed: {reason}"
                );
                None
            }
        }
    }

    /// Counters on all devices, each opened by `open`; `None` if there is too little memory.
    fn open<C>(
        &self,
        bytes: Option<usize>,
        open: impl Fn(&Arc<CudaDevice>) -> Result<C, GpuError>,
    ) -> Result<Option<OnDevices<C>>, CountError> {
        let Some(reserved) = self.reserve(bytes) else {
            return Ok(None);
        };
        let counters = self.devices.iter().map(open).collect();
        match counters {
            Ok(counters) => Ok(Some(OnDevices {
                counters,
                next: AtomicUsize::new(0),
                _reserved: reserved,
            })),
            Err(error) if self.is_required => Err(of_device(error)),
            Err(error) => {
                log::warn!("the host counts pairs instead of the GPU: {error}");
                Ok(None)
            }
        }
    }
}

impl PairDevice for GpuPairs {
    fn counter(
        &self,
        units: Units,
        copies: usize,
    ) -> Result<Option<Box<dyn UnitCounter>>, CountError> {
        let Some(layout) = Layout::try_new(units, copies) else {
            return Ok(None);
        };
        let open = |device: &_| PairCounter::try_new(device, layout, &self.staging);
        let on = self.open(layout.device_bytes(), open)?;
        let stride = layout.stride();
        Ok(on.map(|on| Box::new(PairsOnDevices { on, stride }) as _))
    }

    fn weighted_counter(
        &self,
        samples: usize,
        classes: Vec<ClassWeights>,
    ) -> Result<Option<Box<dyn WeightedCounter>>, CountError> {
        let Some(layout) = WeightedLayout::try_new(samples) else {
            return Ok(None);
        };
        let classes = Arc::new(classes);
        let open = |device: &_| WeightedPairs::try_new(device, layout, &classes, &self.staging);
        let on = self.open(layout.device_bytes(), open)?;
        Ok(on.map(|on| Box::new(on) as _))
    }
}

/// A counter on each device.
#[derive(Debug)]
struct OnDevices<C> {
    counters: Vec<C>,
    /// Number of times that rows were added, by which they are dealt out.
    next: AtomicUsize,
    /// Dropped after the counters.
    _reserved: Reserved,
}

impl<C> OnDevices<C> {
    /// The counter of the next rows.
    fn next(&self) -> Result<&C, CountError> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.counters.len().max(1);
        let none = || CountError::Device("there is no GPU".into());
        self.counters.get(next).ok_or_else(none)
    }
}

/// Counters of pairs of units.
#[derive(Debug)]
struct PairsOnDevices {
    on: OnDevices<PairCounter>,
    stride: usize,
}

impl UnitCounter for PairsOnDevices {
    fn add(
        &self,
        rows: usize,
        set: &mut SetRows<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.on.next()?.add(rows, set, workers)
    }

    fn take(self: Box<Self>) -> Result<UnitCounts, CountError> {
        // Dropped after the counters.
        let _reserved = self.on._reserved;
        let mut counters = self.on.counters;
        // All devices count at the same time.
        for counter in &mut counters {
            counter.finish()?;
        }
        let mut counts = vec![];
        for counter in counters {
            counter.take(&mut counts)?;
        }
        Ok(UnitCounts::new(self.stride, counts))
    }
}

impl WeightedCounter for OnDevices<WeightedPairs> {
    fn add(
        &self,
        classes: &[u32],
        set: &mut SetRows<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.next()?.add(classes, set, workers)
    }

    fn take(self: Box<Self>) -> Result<WeightedSums, CountError> {
        // Dropped after the counters.
        let _reserved = self._reserved;
        let mut counters = self.counters;
        for counter in &mut counters {
            counter.finish()?;
        }
        let mut sums = WeightedSums::default();
        for counter in counters {
            counter.take(&mut sums)?;
        }
        Ok(sums)
    }
}
