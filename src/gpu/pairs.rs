//! [`GpuPairs`]: the devices of a query, which count pairs for aggregates over pairs. Each counts some of the rows; the sums are added.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cuda::{
    ChunkOnDevice, CudaDevice, DeviceSamples, Layout, PairCounter, ResidentPool, Staging,
    WeightedLayout, WeightedPairs, of_device,
};
use super::memory_budget::{MemoryBudget, Reserved};
use crate::counts::pairs::{
    AddSums, ClassWeights, KeepsRows, PairDevice, SAMPLE_COUNTS, SampleCounter, SetRows,
    UnitCounter, Units, WeightedCounter, WeightedSums,
};
use crate::counts::{CountError, ResidentPart, Workers};
use crate::gpu::error::GpuError;

/// The devices of a query.
#[derive(Debug)]
pub struct GpuPairs {
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) devices: Vec<Arc<CudaDevice>>,
    /// Memory of each for rows that stay there.
    pools: Vec<Arc<ResidentPool>>,
    /// The same of all devices of the engine.
    all_pools: Vec<Arc<ResidentPool>>,
    pub(super) staging: Arc<Staging>,
    pub(super) is_required: bool,
}

impl GpuPairs {
    pub(super) fn new(
        budget: Arc<MemoryBudget>,
        devices: Vec<Arc<CudaDevice>>,
        pools: Vec<Arc<ResidentPool>>,
        all_pools: Vec<Arc<ResidentPool>>,
        staging: Arc<Staging>,
        is_required: bool,
    ) -> Self {
        Self {
            budget,
            devices,
            pools,
            all_pools,
            staging,
            is_required,
        }
    }

    /// Memory of each device; that which is kept for rows if there is too little otherwise.
    ///
    /// # Errors
    /// If there is too little then, too.
    pub(super) fn try_reserve(&self, bytes: usize) -> Result<Reserved, GpuError> {
        match self.budget.reserve(bytes as u64) {
            Err(_) if release_kept(&self.budget, &self.all_pools) => {
                self.budget.reserve(bytes as u64)
            }
            reserved => reserved,
        }
    }

    /// Memory of each device; `None` if there is too little.
    fn reserve(&self, bytes: Option<usize>) -> Option<Reserved> {
        let bytes = bytes?;
        match self.try_reserve(bytes) {
            Ok(reserved) => Some(reserved),
            Err(reason) => {
                log::debug!("the GPU does not count pairs with {bytes} bytes of memory: {reason}");
                None
            }
        }
    }

    /// Counters on all devices, each opened by `open`; `None` if there is too little memory.
    fn try_open<C>(
        &self,
        bytes: Option<usize>,
        open: impl Fn(&Arc<CudaDevice>) -> Result<C, GpuError>,
    ) -> Result<Option<OnDevices<C>>, GpuError> {
        let Some(reserved) = self.reserve(bytes) else {
            return Ok(None);
        };
        Ok(Some(OnDevices {
            counters: self.devices.iter().map(open).collect::<Result<_, _>>()?,
            ordinals: self.devices.iter().map(|device| device.ordinal).collect(),
            next: AtomicUsize::new(0),
            _reserved: reserved,
        }))
    }

    /// The same; `None` after an error, too, where the host may count.
    fn open<C>(
        &self,
        bytes: Option<usize>,
        open: impl Fn(&Arc<CudaDevice>) -> Result<C, GpuError>,
    ) -> Result<Option<OnDevices<C>>, CountError> {
        match self.try_open(bytes, open) {
            Ok(opened) => Ok(opened),
            Err(error) if self.is_required => Err(of_device(error)),
            Err(error) => {
                log::warn!("the host counts pairs instead of the GPU: {error}");
                Ok(None)
            }
        }
    }
}

/// Frees what `pools` keep for the rows of the next query; `false` if that is nothing.
pub(super) fn release_kept<'a>(
    budget: &MemoryBudget,
    pools: impl IntoIterator<Item = &'a Arc<ResidentPool>>,
) -> bool {
    let is_kept = budget.release_kept();
    if is_kept {
        pools.into_iter().for_each(|pool| pool.release());
    }
    is_kept
}

/// Memory for rows that stay on devices, while a query counts their pairs.
#[derive(Debug)]
struct ResidentMemory {
    /// The devices, as bits.
    devices: u64,
    /// Bytes of each of them.
    bytes: usize,
    pools: Vec<Arc<ResidentPool>>,
    budget: Arc<MemoryBudget>,
    reserved: Option<Reserved>,
}

impl KeepsRows for ResidentMemory {
    fn devices(&self) -> u64 {
        self.devices
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ResidentMemory {
    fn drop(&mut self) {
        let is_lost = self.budget.is_lost();
        let mut is_kept = false;
        for pool in &self.pools {
            is_kept |= pool.close(self.bytes, is_lost);
        }
        if let Some(reserved) = self.reserved.take()
            && is_kept
            && !reserved.keep()
        {
            self.pools.iter().for_each(|pool| pool.release());
        }
    }
}

impl PairDevice for GpuPairs {
    fn keep_rows(&self) -> Option<Box<dyn KeepsRows>> {
        let bytes = self.budget.for_resident_rows();
        let reserved = self.budget.reserve_kept(bytes as u64);
        let told = |reason: &GpuError| {
            log::debug!("no rows stay on the GPU, which would take {bytes} bytes: {reason}");
        };
        let reserved = reserved.inspect_err(told).ok()?;
        self.pools.iter().for_each(|pool| pool.open(bytes));
        let bit = |device: &Arc<CudaDevice>| 1 << (device.ordinal % 64);
        let devices = self.devices.iter().map(bit);
        Some(Box::new(ResidentMemory {
            devices: devices.fold(0, |all, bit: u64| all | bit),
            bytes,
            pools: self.pools.clone(),
            budget: Arc::clone(&self.budget),
            reserved: Some(reserved),
        }))
    }

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
        Ok(on.map(|on| Box::new(on) as _))
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
        let open = |layout: WeightedLayout| {
            let (classes, staging) = (Arc::clone(&classes), &self.staging);
            move |device: &_| WeightedPairs::try_new(device, layout, &classes, staging)
        };
        let bytes = layout.device_bytes();
        if bytes.is_some_and(|bytes| self.budget.is_small(bytes)) {
            match self.try_open(bytes, open(layout)) {
                Ok(Some(on)) => return Ok(Some(Box::new(on))),
                Ok(None) => {}
                Err(error) => log::debug!("fewer rows are kept on the GPU: {error}"),
            }
        }
        let layout = layout.with_fewer_rows();
        let on = self.open(layout.device_bytes(), open(layout))?;
        Ok(on.map(|on| Box::new(on) as _))
    }

    fn sample_counter(&self, samples: usize) -> Result<Option<Box<dyn SampleCounter>>, CountError> {
        let open = |device: &_| DeviceSamples::try_new(device, samples, &self.staging);
        let on = self.open(DeviceSamples::device_bytes(samples), open)?;
        Ok(on.map(|on| Box::new(SamplesOnDevices { on, samples }) as _))
    }
}

/// A counter on each device.
#[derive(Debug)]
struct OnDevices<C> {
    counters: Vec<C>,
    /// The number of the device of each.
    ordinals: Vec<usize>,
    /// Number of times that rows were added, by which they are dealt out.
    next: AtomicUsize,
    /// Dropped after the counters.
    _reserved: Reserved,
}

impl<C> OnDevices<C> {
    /// Calls `add` for the counter of each device that has some of `parts`, with those, and with the `classes` of their rows, if rows have classes.
    fn each_resident(
        &self,
        parts: &[ResidentPart],
        classes: &[u32],
        add: impl Fn(&C, &[ResidentPart], &[u32]) -> Result<(), CountError>,
    ) -> Result<(), CountError> {
        if let [counter] = self.counters.as_slice() {
            return add(counter, parts, classes);
        }
        let mut of_counters: Vec<(Vec<ResidentPart>, Vec<u32>)> = vec![];
        of_counters.resize_with(self.counters.len(), Default::default);
        let mut classes = classes.iter();
        for part in parts {
            let chunk: &dyn Any = &*part.chunk;
            let device = chunk
                .downcast_ref::<ChunkOnDevice>()
                .map(ChunkOnDevice::device);
            let place = self
                .ordinals
                .iter()
                .position(|ordinal| Some(*ordinal) == device);
            let Some((of_device, of_rows)) = place.and_then(|place| of_counters.get_mut(place))
            else {
                return Err(CountError::Device(
                    "a row is on another GPU than those that count pairs".into(),
                ));
            };
            of_device.push(part.clone());
            of_rows.extend(classes.by_ref().take(part.rows.len()));
        }
        for (counter, (parts, classes)) in self.counters.iter().zip(of_counters) {
            add(counter, &parts, &classes)?;
        }
        Ok(())
    }

    /// The counter of the next rows.
    fn next(&self) -> Result<&C, CountError> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.counters.len().max(1);
        let none = || CountError::Device("there is no GPU".into());
        self.counters.get(next).ok_or_else(none)
    }
}

impl UnitCounter for OnDevices<PairCounter> {
    fn add(
        &self,
        rows: usize,
        set: &mut SetRows<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.next()?.add(rows, set, workers)
    }

    fn add_resident(
        &self,
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let add =
            |counter: &PairCounter, parts: &[_], _: &[u32]| counter.add_resident(parts, workers);
        self.each_resident(parts, &[], add)
    }

    fn take(self: Box<Self>, add: &mut AddSums<'_>) -> Result<(), CountError> {
        // Dropped after the counters.
        let _reserved = self._reserved;
        let mut counters = self.counters;
        // All devices count at the same time.
        for counter in &mut counters {
            counter.finish()?;
        }
        counters
            .into_iter()
            .try_for_each(|counter| counter.take(add))
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

    fn add_resident(
        &self,
        classes: &[u32],
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.each_resident(parts, classes, |counter, parts, classes| {
            counter.add_resident(parts, classes, workers)
        })
    }

    fn take(self: Box<Self>, workers: &Workers<'_>) -> Result<WeightedSums, CountError> {
        // Dropped after the counters.
        let _reserved = self._reserved;
        let mut counters = self.counters;
        for counter in &mut counters {
            counter.finish()?;
        }
        let mut sums = WeightedSums::default();
        for counter in counters {
            counter.take(&mut sums, workers)?;
        }
        Ok(sums)
    }
}

/// Counters of genotypes of individuals.
#[derive(Debug)]
struct SamplesOnDevices {
    on: OnDevices<DeviceSamples>,
    samples: usize,
}

impl SampleCounter for SamplesOnDevices {
    fn add_resident(
        &self,
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let add =
            |counter: &DeviceSamples, parts: &[_], _: &[u32]| counter.add_resident(parts, workers);
        self.on.each_resident(parts, &[], add)
    }

    fn take(self: Box<Self>) -> Result<Vec<u32>, CountError> {
        // Dropped after the counters.
        let _reserved = self.on._reserved;
        let mut counters = self.on.counters;
        for counter in &mut counters {
            counter.finish()?;
        }
        // The device has memory for as many.
        let mut counts = vec![0; SAMPLE_COUNTS * self.samples];
        for counter in counters {
            counter.take(&mut counts)?;
        }
        Ok(counts)
    }
}
