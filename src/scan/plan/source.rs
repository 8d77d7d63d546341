//! [`VczSource`]: the scan of a VCZ table as a DataFusion `DataSource`: its inputs and its partitions. Pushdown is in `pushdown`, order
//! and statistics are in `properties`.
//!
//! ```text
//! table columns ──► inputs (arrays and calls, each once) ──► projection ──► output
//! ```
//! Invariant: `projection` is over `inputs`, in their order; filters are over the table's columns.

use std::any::Any;
use std::fmt::{self, Formatter};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use super::choice::LatestChoice;
use super::ranges::{rows_in, split};
use super::zones::Zones;
use crate::counts::gathered::most_row_words;
use crate::scan::calls::call::{FilteredCall, GenotypeCall};
use crate::scan::calls::context::GenotypeContext;
use crate::scan::calls::population_pairs::pairs_of;
use crate::scan::options::VczSettings;
use crate::scan::origin::TableOrigin;
use crate::scan::schema::ColumnKind;
use crate::scan::stores::Stores;

/// What a scan computes for one of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub enum ScanInput {
    /// A column of the table.
    Array(usize),
    /// A call on `call_genotype`.
    Call(FilteredCall),
}

/// The table of a scan, shared by every plan over it.
#[derive(Debug)]
pub struct ScanTable {
    /// The opened stores.
    pub stores: Arc<Stores>,
    /// Their samples and populations.
    pub context: Arc<GenotypeContext>,
    /// The table's schema.
    pub schema: SchemaRef,
    /// How another process opens the stores; `None` if it cannot.
    pub origin: Option<TableOrigin>,
}

/// A scan of a VCZ table.
#[derive(Debug, Clone)]
pub struct VczSource {
    pub(in crate::scan) table: Arc<ScanTable>,
    pub(in crate::scan) zones: Option<Arc<Zones>>,
    /// Exact predicates over the table's columns.
    pub(in crate::scan) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Dynamic predicates over the table's columns; they only skip work.
    pub(in crate::scan) dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows kept after pruning, ascending and disjoint.
    pub(in crate::scan) kept: Arc<Vec<Range<u64>>>,
    pub(in crate::scan) partitions: Vec<Vec<Range<u64>>>,
    /// Whether the partitions are those that were asked for, and must not be changed.
    pub(in crate::scan) fixed: bool,
    /// Whether several tasks may read a partition, which gives its rows in order all the same.
    pub(in crate::scan) by_tasks: bool,
    pub(in crate::scan) inputs: Vec<ScanInput>,
    pub(in crate::scan) input_schema: SchemaRef,
    pub(in crate::scan) projection: ProjectionExprs,
    pub(in crate::scan) schema: SchemaRef,
    pub(in crate::scan) limit: Option<usize>,
    /// The order and constants to declare, if they are those of more rows than this scan's.
    pub(in crate::scan) declared: Option<EquivalenceProperties>,
    pub(in crate::scan) settings: VczSettings,
    pub(in crate::scan) latest_choice: LatestChoice,
    pub(in crate::scan) metrics: ExecutionPlanMetricsSet,
}

/// Limits on the number of partitions and on the work of each, in decoded bytes.
#[derive(Debug, Clone, Copy)]
pub struct PartitionGoal {
    /// At most this many partitions.
    pub partitions: usize,
    /// The minimum work of a partition, in decoded bytes.
    pub min_bytes: usize,
}

impl VczSource {
    /// A scan of the table columns `columns`, keeping the rows in `kept`.
    #[expect(
        clippy::too_many_arguments,
        reason = "these are the parts of a scan; a struct would only rename them"
    )]
    pub fn try_new(
        table: Arc<ScanTable>,
        zones: Option<Arc<Zones>>,
        columns: &[usize],
        filters: Vec<Arc<dyn PhysicalExpr>>,
        kept: Vec<Range<u64>>,
        limit: Option<usize>,
        settings: VczSettings,
        goal: PartitionGoal,
    ) -> Result<Self> {
        let inputs: Vec<ScanInput> = columns
            .iter()
            .map(|&column| ScanInput::Array(column))
            .collect();
        let input_schema = Arc::new(table.schema.project(columns)?);
        let all: Vec<usize> = (0..columns.len()).collect();
        let mut source = Self {
            projection: ProjectionExprs::from_indices(&all, &input_schema),
            schema: Arc::clone(&input_schema),
            table,
            zones,
            filters,
            dynamic: vec![],
            partitions: vec![],
            fixed: false,
            by_tasks: false,
            kept: Arc::new(kept),
            inputs,
            input_schema,
            limit,
            declared: None,
            settings,
            latest_choice: LatestChoice::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        source.partitions = source.divide(goal);
        Ok(source)
    }

    /// The table that is scanned.
    pub fn table(&self) -> &Arc<ScanTable> {
        &self.table
    }

    /// This scan with one partition, whose rows are in the table's order, and which several tasks read.
    pub fn in_one_partition(&self) -> Self {
        Self {
            partitions: vec![self.kept.to_vec()],
            fixed: true,
            by_tasks: true,
            ..self.clone()
        }
    }

    /// Whether every row of the table is read.
    pub fn reads_all(&self) -> bool {
        let rows = self.table.stores.n_variants();
        self.filters.is_empty() && self.limit.is_none() && rows_in(&self.kept) == rows
    }

    fn divide(&self, goal: PartitionGoal) -> Vec<Vec<Range<u64>>> {
        let rows = rows_in(&self.kept);
        let work = rows.saturating_mul(self.read_row_bytes() as u64);
        let most = work / (goal.min_bytes as u64).max(1) + 1;
        // A small LIMIT is reached in the first chunks; more partitions would only read chunks that are not needed.
        let limited =
            self.filters.is_empty() && self.limit.is_some_and(|limit| (limit as u64) < rows / 2);
        let parts = if limited {
            1
        } else {
            most.min(goal.partitions as u64) as usize
        };
        split(&self.kept, parts, self.chunk_boundary())
    }

    /// The first row at or after a row where the rows may be cut, so that no chunk is decoded twice.
    pub(in crate::scan) fn chunk_boundary(&self) -> impl Fn(u64) -> u64 {
        let stores = &self.table.stores;
        let chunk_rows: Vec<u64> = (0..stores.members().len())
            .map(|store| self.heavy_chunk_rows(store).max(1))
            .collect();
        move |row| match stores.piece_of(row) {
            Some(piece) => {
                let chunk_rows = chunk_rows[piece.store];
                let cut = piece
                    .to_store(row)
                    .div_ceil(chunk_rows)
                    .saturating_mul(chunk_rows);
                // The end of a piece is a boundary, too.
                piece.to_table(cut).min(piece.rows.end.max(row))
            }
            None => row,
        }
    }

    /// Table columns that are read: those of the inputs and of the filters.
    pub(super) fn read_columns(&self) -> Vec<usize> {
        let mut read: Vec<usize> = self
            .inputs
            .iter()
            .flat_map(|input| match input {
                ScanInput::Array(column) => vec![*column],
                ScanInput::Call(call) => self.columns_of(call),
            })
            .chain(
                self.filters
                    .iter()
                    .flat_map(collect_columns)
                    .map(|column| column.index()),
            )
            .collect();
        read.sort_unstable();
        read.dedup();
        read
    }

    /// Table columns that `call` is computed from: the genotypes and the fields of its filters.
    pub(in crate::scan) fn columns_of(&self, call: &FilteredCall) -> Vec<usize> {
        let fields = call.filters.iter().map(|filter| filter.array.as_str());
        let names = std::iter::once("call_genotype").chain(fields);
        names
            .filter_map(|name| self.table.stores.column_index(name))
            .collect()
    }

    /// Rows of one chunk, in the store `store`, of the column that is most expensive to decode.
    pub(in crate::scan) fn heavy_chunk_rows(&self, store: usize) -> u64 {
        let read = self.read_columns();
        let Some(member) = self.table.stores.members().get(store) else {
            return 1;
        };
        let arrays = read.iter().filter_map(|&column| member.spec(column));
        let heaviest = arrays.max_by_key(|column| column.row_bytes());
        // If a store has none of the columns, nothing is decoded, and the chunks of its positions have a suitable size.
        let positions = || {
            let mut columns = member.dataset.columns().iter();
            columns.find(|column| column.kind == ColumnKind::Position && !read.is_empty())
        };
        heaviest
            .or_else(positions)
            .map_or(1, |column| column.array.chunks[0])
    }

    /// Bytes of one row of all columns that are read.
    pub(in crate::scan) fn read_row_bytes(&self) -> usize {
        let columns = self.table.stores.columns();
        let read = self.read_columns();
        let bytes = read.iter().map(|&column| columns[column].row_bytes());
        bytes.fold(0, usize::saturating_add)
    }

    /// The most rows that a chunk of a column that is read has, in any store.
    pub(in crate::scan) fn longest_chunk_rows(&self) -> u64 {
        let read = self.read_columns();
        let members = self.table.stores.members().iter();
        let chunks = members.flat_map(|member| {
            let specs = read.iter().filter_map(|&column| member.spec(column));
            specs.map(|spec| spec.array.chunks[0])
        });
        chunks.max().unwrap_or(1)
    }

    /// Bytes of one output row, for the limit on the bytes of a batch.
    pub(in crate::scan) fn output_row_bytes(&self) -> usize {
        let columns = self.table.stores.columns();
        let context = &self.table.context;
        let n_alleles = context.n_alleles().unwrap_or(1);
        let bytes = |input: &ScanInput| match input {
            ScanInput::Array(column) => columns[*column].row_bytes(),
            ScanInput::Call(call) => match &call.call {
                GenotypeCall::AlleleCounts(_) => n_alleles * size_of::<i32>(),
                GenotypeCall::PopulationCounts(populations) => {
                    populations.len() * (n_alleles * size_of::<i32>() + 32)
                }
                GenotypeCall::PopulationPairCounts(populations) => {
                    pairs_of(populations.len()) * 2 * (n_alleles * size_of::<i32>() + 32)
                }
                GenotypeCall::ZygosityCounts(_) => (1 + 2 * n_alleles) * size_of::<i32>(),
                GenotypeCall::GenotypeCounts(_) => 5 * size_of::<i32>(),
                GenotypeCall::SelectSamples(samples) => {
                    samples.len() * context.ploidy() * size_of::<i8>()
                }
                GenotypeCall::GenotypePlanes(samples) => {
                    let copies = samples.len().saturating_mul(context.ploidy());
                    most_row_words(copies, n_alleles).saturating_mul(size_of::<u64>())
                }
            },
        };
        self.inputs.iter().map(bytes).sum::<usize>().max(1)
    }
}

impl DataSource for VczSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn create_sibling_state(&self, _config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.new_execution(self.partitions.len()))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        self.open_partition(args)
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        self.display(t, f)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        min_size: usize,
        _output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        if self.fixed {
            return Ok(None);
        }
        let goal = PartitionGoal {
            partitions: target_partitions,
            min_bytes: min_size,
        };
        let partitions = self.divide(goal);
        if partitions.len() <= self.partitions.len() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self {
            partitions,
            ..self.clone()
        })))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        match &self.declared {
            Some(declared) => declared.clone(),
            None => self.properties(),
        }
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let statistics = self
            .projection
            .project_statistics(self.input_statistics(partition), &self.schema)?;
        Ok(Arc::new(match self.limit {
            Some(_) => statistics.with_fetch(self.limit, 0, 1)?,
            None => statistics,
        }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(self.push_limit(limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(self
            .push_projection(projection)?
            .map(|source| Arc::new(source) as _))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let (source, answers) = self.push_filters(&filters);
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        Ok(match source {
            Some(source) => propagation.with_updated_node(Arc::new(source) as _),
            None => propagation,
        })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.projection.iter().map(|projected| &projected.expr);
        for expr in self.filters.iter().chain(&self.dynamic).chain(projected) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
