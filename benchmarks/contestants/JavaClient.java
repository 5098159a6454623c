package bench;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;

/**
 * Reads, writes and compacts with Java Paimon, a thread for each bucket.
 *
 * Compiled by Janino, which knows no lambdas and no type inference.
 */
public class JavaClient {
    private final IOManager ioManager;
    private final int threads;

    public JavaClient(String scratch, int threads) {
        this.ioManager = IOManager.create(scratch);
        this.threads = threads;
    }

    /** Row count, and the sum of one column. */
    public double[] read(final FileStoreTable table, final int column) throws Exception {
        final ReadBuilder builder = table.newReadBuilder();
        List work = new ArrayList();
        List splits = builder.newScan().plan().splits();
        for (int i = 0; i < splits.size(); i++) {
            final Split split = (Split) splits.get(i);
            work.add(new Callable() {
                public Object call() throws Exception {
                    return readSplit(builder, split, column, table);
                }
            });
        }
        double count = 0;
        double sum = 0;
        List parts = runAll(work);
        for (int i = 0; i < parts.size(); i++) {
            double[] part = (double[]) parts.get(i);
            count += part[0];
            sum += part[1];
        }
        return new double[] {count, sum};
    }

    private double[] readSplit(ReadBuilder builder, Split split, int column, FileStoreTable table)
            throws Exception {
        boolean isDecimal = table.rowType().getTypeAt(column).toString().startsWith("DECIMAL");
        double count = 0;
        double sum = 0;
        RecordReader reader = builder.newRead().withIOManager(ioManager).createReader(split);
        RecordReader.RecordIterator batch = reader.readBatch();
        while (batch != null) {
            InternalRow row = (InternalRow) batch.next();
            while (row != null) {
                count += 1;
                if (!row.isNullAt(column)) {
                    if (isDecimal) {
                        Decimal value = row.getDecimal(column, 15, 2);
                        sum += value.toUnscaledLong() / 100.0;
                    } else {
                        sum += row.getDouble(column);
                    }
                }
                row = (InternalRow) batch.next();
            }
            batch.releaseBatch();
            batch = reader.readBatch();
        }
        reader.close();
        return new double[] {count, sum};
    }

    /** Rows of `source` in memory, by the bucket of `target` they belong to. */
    public Map load(FileStoreTable source, FileStoreTable target) throws Exception {
        InternalRowSerializer serializer = new InternalRowSerializer(target.rowType());
        BatchTableWrite write = target.newBatchWriteBuilder().newWrite();
        Map buckets = new TreeMap();
        ReadBuilder builder = source.newReadBuilder();
        List splits = builder.newScan().plan().splits();
        for (int i = 0; i < splits.size(); i++) {
            RecordReader reader = builder.newRead().createReader((Split) splits.get(i));
            RecordReader.RecordIterator batch = reader.readBatch();
            while (batch != null) {
                InternalRow row = (InternalRow) batch.next();
                while (row != null) {
                    BinaryRow copy = serializer.toBinaryRow(row).copy();
                    Integer bucket = Integer.valueOf(write.getBucket(copy));
                    List rows = (List) buckets.get(bucket);
                    if (rows == null) {
                        rows = new ArrayList();
                        buckets.put(bucket, rows);
                    }
                    rows.add(copy);
                    row = (InternalRow) batch.next();
                }
                batch.releaseBatch();
                batch = reader.readBatch();
            }
            reader.close();
        }
        write.close();
        return buckets;
    }

    /** Write loaded rows in one commit. */
    public void upsert(FileStoreTable table, Map buckets) throws Exception {
        final BatchWriteBuilder builder = table.newBatchWriteBuilder();
        List work = new ArrayList();
        Object[] parts = buckets.values().toArray();
        for (int i = 0; i < parts.length; i++) {
            final List rows = (List) parts[i];
            work.add(new Callable() {
                public Object call() throws Exception {
                    BatchTableWrite write = builder.newWrite();
                    write.withIOManager(ioManager);
                    for (int at = 0; at < rows.size(); at++) {
                        write.write((InternalRow) rows.get(at));
                    }
                    List messages = write.prepareCommit();
                    write.close();
                    return messages;
                }
            });
        }
        commit(builder, runAll(work));
    }

    /** Compact every bucket fully, in one commit. */
    public void compact(FileStoreTable table) throws Exception {
        Map options = new HashMap();
        options.put("write-only", "false");
        FileStoreTable target = table.copy(options);
        final BatchWriteBuilder builder = target.newBatchWriteBuilder();
        List work = new ArrayList();
        Map seen = new HashMap();
        List splits = target.newReadBuilder().newScan().plan().splits();
        for (int i = 0; i < splits.size(); i++) {
            final DataSplit split = (DataSplit) splits.get(i);
            if (seen.put(Integer.valueOf(split.bucket()), split) != null) {
                continue;
            }
            work.add(new Callable() {
                public Object call() throws Exception {
                    BatchTableWrite write = builder.newWrite();
                    write.withIOManager(ioManager);
                    write.compact(split.partition(), split.bucket(), true);
                    List messages = write.prepareCommit();
                    write.close();
                    return messages;
                }
            });
        }
        commit(builder, runAll(work));
    }

    private void commit(BatchWriteBuilder builder, List parts) throws Exception {
        List messages = new ArrayList();
        for (int i = 0; i < parts.size(); i++) {
            messages.addAll((List) parts.get(i));
        }
        BatchTableCommit commit = builder.newCommit();
        commit.commit(messages);
        commit.close();
    }

    private List runAll(List work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List results = new ArrayList();
        try {
            List futures = pool.invokeAll(work);
            for (int i = 0; i < futures.size(); i++) {
                results.add(((Future) futures.get(i)).get());
            }
        } finally {
            pool.shutdownNow();
        }
        return results;
    }
}
