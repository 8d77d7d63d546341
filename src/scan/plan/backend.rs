//! Chooses the backend for the arrays over samples of a scan, with a reason. Arrays over variants alone are small and always decoded by
//! the host.

use std::collections::BTreeSet;
use std::ops::Range;

use datafusion::common::Result;
use tokio::sync::OnceCell;

use super::choice::Choice;
use super::ranges::{chunks_in, rows_in};
use super::source::{ScanInput, VczSource};
use crate::codec::CodecChain;
use crate::scan::calls::call::GenotypeCall;
use crate::scan::calls::filters::CallFilters;
use crate::scan::calls::results::GENOTYPE_CLASSES;
use crate::scan::chunks::gpu::{self, Gpus};
use crate::scan::chunks::{ArrayLoad, HostReason};
use crate::scan::options::{Backend, VczSettings};
use crate::store::ArrayMeta;

/// The backend of one execution of a scan, shared by its partitions and chosen when the first batch is requested.
#[derive(Debug, Default)]
pub struct ExecutionBackend {
    device: OnceCell<Option<Gpus>>,
}

impl ExecutionBackend {
    /// The GPUs that decode arrays over samples; `None` for the host. With `vcz.backend = 'gpu'`, waits until they are ready.
    ///
    /// # Errors
    /// The reason why there is no GPU, if one was required.
    pub async fn device(&self, source: &VczSource) -> Result<Option<&Gpus>> {
        let choose = || async {
            let (device, choice) = open(source).await?;
            *source.latest_choice.lock() = Some(choice);
            Ok::<_, datafusion::common::DataFusionError>(device)
        };
        Ok(self.device.get_or_try_init(choose).await?.as_ref())
    }
}

async fn open(source: &VczSource) -> Result<(Option<Gpus>, Choice)> {
    let (settings, choice) = (&source.settings, source.choice());
    if !choice.is_gpu {
        return Ok((None, choice));
    }
    let device = match Gpus::open(settings).await {
        Ok(device) => device,
        Err(error) if settings.backend == Backend::Gpu => return Err(error),
        // The GPU was usable when it was chosen, but no longer is.
        Err(error) => {
            log::warn!("the host decodes instead of the GPU: {error}");
            return Ok((None, Choice::host(format!("auto: {error}"))));
        }
    };
    let device = device.with_storage(settings).await?;
    Ok((Some(device.filtering_calls(choice.filters_calls)), choice))
}

impl VczSource {
    /// The backend that this scan would use if it were executed now.
    pub(in crate::scan) fn choice(&self) -> Choice {
        if self.settings.backend == Backend::Host {
            return Choice::host("vcz.backend = 'host'");
        }
        let on_host = self.filters_on_host();
        let arrays = self.arrays_over_samples(on_host.is_none());
        if arrays.is_empty() {
            return Choice::host("no array over samples is read");
        }
        let gpu = |reason: String| match &on_host {
            Some(why) => Choice::gpu(reason).filtering_on_host(why),
            None => Choice::gpu(reason),
        };
        if self.settings.backend == Backend::Gpu {
            return gpu("vcz.backend = 'gpu'".to_string());
        }
        let parts = self.table.stores.by_piece(&self.kept);
        let loads = parts
            .iter()
            .flat_map(|(piece, rows)| {
                let arrays = arrays.iter();
                arrays.filter_map(|&(column, row_bytes)| {
                    self.load(piece.store, rows, column, row_bytes)
                })
            })
            .collect::<std::result::Result<_, _>>();
        match loads.and_then(gpu::choose) {
            Ok(reason) => gpu(format!("auto: {reason}")),
            Err(reason) => Choice::host(format!("auto: {reason}")),
        }
    }

    /// The backend that the latest execution has used; before the first execution, the one that it would use now.
    pub(in crate::scan) fn shown_choice(&self) -> Choice {
        let latest = self.latest_choice.lock().clone();
        latest.unwrap_or_else(|| self.choice())
    }

    /// Whether few chunks may be needed, because of a LIMIT or dynamic filters.
    pub(in crate::scan) fn may_stop(&self) -> bool {
        self.limit.is_some() || !self.dynamic.is_empty()
    }

    /// The initial number of variant chunks to read of a store, if few may be needed.
    pub(in crate::scan) fn few_chunks(&self, store: usize) -> Option<usize> {
        let per_chunk = self.heavy_chunk_rows(store).max(1);
        match self.limit {
            Some(limit) => Some((limit as u64).div_ceil(per_chunk).max(1) as usize),
            None if !self.dynamic.is_empty() => Some(1),
            None => None,
        }
    }

    /// Arrays over samples that are read, with the bytes per row that a GPU would return of each. It may also filter calls.
    fn arrays_over_samples(&self, may_filter: bool) -> Vec<(usize, usize)> {
        let columns = self.table.stores.columns();
        let genotype = self.table.stores.column_index("call_genotype");
        let mut arrays: Vec<(usize, usize)> = Vec::new();
        let n_alleles = self.table.context.n_alleles().unwrap_or(1);
        let mut add = |column: usize, row_bytes: usize| match arrays
            .iter_mut()
            .find(|(known, _)| *known == column)
        {
            Some((_, known)) => *known = known.saturating_add(row_bytes),
            None => arrays.push((column, row_bytes)),
        };
        let is_filtered = self.filters_calls() && !may_filter;
        let mut decoded = BTreeSet::new();
        for input in &self.inputs {
            match (input, genotype) {
                (ScanInput::Array(column), _) if !columns[*column].is_site_level() => {
                    add(*column, columns[*column].row_bytes());
                }
                // If the host filters calls, a GPU decodes the elements once, and the host counts them.
                (ScanInput::Call(call), Some(_)) if is_filtered => {
                    decoded.extend(self.columns_of(call));
                }
                (ScanInput::Call(call), Some(column)) => {
                    let fields = self.columns_of(call).into_iter();
                    fields
                        .filter(|field| *field != column)
                        .for_each(|field| add(field, 0));
                    let bytes = match &call.call {
                        GenotypeCall::SelectSamples(samples) => {
                            samples.len() * self.table.context.ploidy()
                        }
                        GenotypeCall::GenotypeCounts(_) => GENOTYPE_CLASSES.len() * 4,
                        GenotypeCall::ZygosityCounts(_) => 2 * n_alleles * 4,
                        GenotypeCall::GenotypePlanes(samples) => {
                            samples.len() * self.table.context.ploidy() / 8
                        }
                        call => call.allele_sets().len() * n_alleles * 4,
                    };
                    add(column, bytes);
                }
                _ => {}
            }
        }
        for column in decoded {
            add(column, columns[column].row_bytes());
        }
        arrays
    }

    /// Whether calls are filtered. The host then decodes genotypes before it counts them.
    fn filters_calls(&self) -> bool {
        self.call_filters().next().is_some()
    }

    /// The filters of calls.
    fn call_filters(&self) -> impl Iterator<Item = &CallFilters> {
        self.inputs.iter().filter_map(|input| match input {
            ScanInput::Call(call) if !call.filters.is_empty() => Some(&call.filters),
            ScanInput::Call(_) | ScanInput::Array(_) => None,
        })
    }

    /// Why the host filters calls, if calls are filtered and a GPU cannot do it in each store.
    fn filters_on_host(&self) -> Option<HostReason> {
        if !self.filters_calls() {
            return None;
        }
        let stores = &self.table.stores;
        let genotypes = stores.column_index("call_genotype")?;
        let parts = stores.by_piece(&self.kept).into_iter();
        let read: BTreeSet<usize> = parts.map(|(piece, _)| piece.store).collect();
        let members = read.into_iter().filter_map(|at| stores.members().get(at));
        for member in members {
            let Some(Some(place)) = member.columns.get(genotypes) else {
                continue;
            };
            for filters in self.call_filters() {
                if let Err(reason) = gpu::can_filter(&member.dataset, place.column, filters) {
                    return Some(reason);
                }
            }
        }
        None
    }

    /// The work on the array of a column for `rows` of a store; `None` if the store has no such array.
    fn load(
        &self,
        store: usize,
        rows: &[Range<u64>],
        column: usize,
        row_bytes: usize,
    ) -> Option<std::result::Result<ArrayLoad<'_>, HostReason>> {
        let stores = &self.table.stores;
        let member = stores.members().get(store)?;
        let spec = member.spec(column)?;
        let own = member.columns.get(column)?.as_ref()?.column;
        let is_elements =
            |input: &ScanInput| matches!(input, ScanInput::Array(at) if *at == column);
        let is_selection = |input: &ScanInput| {
            let ScanInput::Call(call) = input else {
                return false;
            };
            matches!(call.call, GenotypeCall::SelectSamples(_))
        };
        let is_genotype = stores.column_index("call_genotype") == Some(column);
        let across: u64 = spec.array.grid_shape().iter().skip(1).product();
        let chunks = chunks_in(rows, spec.array.chunks[0]).saturating_mul(across);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let chain = match member.dataset.chain(own) {
            Ok(chain) => chain,
            Err(error) => return Some(Err(format!("{}: {error}", spec.array.name).into())),
        };
        Some(Ok(ArrayLoad {
            spec,
            chain,
            only_calls: !self.filters_calls() && !self.inputs.iter().any(is_elements),
            selects: is_genotype && self.inputs.iter().any(is_selection),
            chunks: chunks as usize,
            output: (rows_in(rows) as usize).saturating_mul(row_bytes),
            threads: self.partitions.len().min(cores),
        }))
    }
}

/// The backend of an array if the settings leave the choice, and the reason.
pub fn of_array(array: &ArrayMeta, chain: &CodecChain) -> (&'static str, String) {
    if array.name.starts_with("call_") && array.rank() > 1 {
        return gpu::of_array(array, chain);
    }
    ("host", "only arrays over samples go to a GPU".to_string())
}

/// Waits until it is known whether there is a GPU.
pub async fn wait_for_status() {
    gpu::wait_for_status().await;
}

/// Starts the GPU engine in the background, if these settings may use it.
pub fn warm_up(settings: &VczSettings) {
    if settings.backend != Backend::Host {
        gpu::warm_up();
    }
}
