//! [`ListSpool`]: columns of lists, kept in a temporary file until the length of the longest list is known.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Schema};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use datafusion::common::{Result, exec_err};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SpillFile, SpillWriter};
use futures::{Stream, StreamExt};

/// Columns of lists in a temporary file.
pub struct ListSpool {
    file: Arc<dyn SpillFile>,
    writer: StreamWriter<Box<dyn SpillWriter>>,
    columns: Vec<usize>,
    longest: Vec<usize>,
}

impl ListSpool {
    /// A file for `columns` of batches of `schema`.
    ///
    /// # Errors
    /// If no temporary file can be made.
    pub fn try_new(runtime: &RuntimeEnv, schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        let file = runtime
            .disk_manager
            .create_tmp_file("lists of a VCZ store that is written")?;
        let kept = Arc::new(schema.project(&columns)?);
        Ok(Self {
            writer: StreamWriter::try_new(file.open_writer()?, &kept)?,
            file,
            longest: vec![0; columns.len()],
            columns,
        })
    }

    /// Appends the columns of `batch`.
    ///
    /// # Errors
    /// Of the file system.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let kept = batch.project(&self.columns)?;
        for (column, longest) in kept.columns().iter().zip(&mut self.longest) {
            *longest = longest_list(column.as_ref())?.max(*longest);
        }
        Ok(self.writer.write(&kept)?)
    }

    /// The columns' batches in order, and the length of the longest list of each.
    ///
    /// # Errors
    /// Of the file system.
    pub fn finish(self) -> Result<(Spooled, Vec<usize>)> {
        let mut writer = self.writer.into_inner()?;
        writer.finish()?;
        let spooled = Spooled {
            bytes: self.file.read_stream()?,
            read: VecDeque::new(),
            decoder: StreamDecoder::new(),
            _file: self.file,
        };
        Ok((spooled, self.longest))
    }
}

/// The batches of a [`ListSpool`].
pub struct Spooled {
    bytes: Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>,
    read: VecDeque<Buffer>,
    decoder: StreamDecoder,
    _file: Arc<dyn SpillFile>,
}

impl Spooled {
    /// The next batch; `None` after the last.
    ///
    /// # Errors
    /// Of the file system.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while let Some(buffer) = self.read.front_mut() {
                let batch = self.decoder.decode(buffer)?;
                if buffer.is_empty() {
                    self.read.pop_front();
                }
                if batch.is_some() {
                    return Ok(batch);
                }
            }
            match self.bytes.next().await.transpose()? {
                Some(bytes) => self.read.push_back(Buffer::from(bytes)),
                None => {
                    self.decoder.finish()?;
                    return Ok(None);
                }
            }
        }
    }
}

/// The length of the longest list of a column that is not NULL.
fn longest_list(column: &dyn Array) -> Result<usize> {
    use arrow::array::AsArray;
    let valid = |at: &usize| column.is_valid(*at);
    let rows = (0..column.len()).filter(valid);
    let longest = match column.data_type() {
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            rows.map(|at| lists.value_length(at) as usize).max()
        }
        DataType::LargeList(_) => {
            let lists = column.as_list::<i64>();
            rows.map(|at| lists.value_length(at) as usize).max()
        }
        DataType::ListView(_) => {
            let lists = column.as_list_view::<i32>();
            rows.map(|at| lists.value_size(at) as usize).max()
        }
        DataType::LargeListView(_) => {
            let lists = column.as_list_view::<i64>();
            rows.map(|at| lists.value_size(at) as usize).max()
        }
        other => return exec_err!("expected lists, found {other}"),
    };
    Ok(longest.unwrap_or(0))
}
