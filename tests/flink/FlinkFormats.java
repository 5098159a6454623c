import java.io.*;
import java.math.BigDecimal;
import java.util.*;

import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.*;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.*;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.data.*;
import org.apache.flink.table.factories.*;
import org.apache.flink.table.runtime.connector.sink.SinkRuntimeProviderContext;
import org.apache.flink.table.runtime.connector.source.ScanRuntimeProviderContext;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.*;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.Collector;

/** Flink's own formats, without a cluster: a request in JSON on each line, an answer on each line. */
public class FlinkFormats {
    static final ObjectMapper JSON = new ObjectMapper();
    static final ClassLoader LOADER = FlinkFormats.class.getClassLoader();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = requests.readLine()) != null; ) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode request = JSON.readTree(line);
                answer.set("results", request.get("do").asText().equals("decode") ? decode(request) : encode(request));
            } catch (Throwable e) {
                answer.put("error", told(e));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    static ArrayNode decode(JsonNode request) throws Exception {
        DeserializationFormatFactory factory =
                FactoryUtil.discoverFactory(LOADER, DeserializationFormatFactory.class, request.get("format").asText());
        RowType physical = row(request, "fields");
        DecodingFormat<DeserializationSchema<RowData>> format = factory.createDecodingFormat(null, options(request));
        List<RowType.RowField> fields = new ArrayList<>(physical.getFields());
        if (request.has("metadata")) {
            RowType metadata = row(request, "metadata");
            format.applyReadableMetadata(metadata.getFieldNames());
            fields.addAll(metadata.getFields());
        }
        RowType type = new RowType(false, fields);
        DeserializationSchema<RowData> schema = format.createRuntimeDecoder(
                ScanRuntimeProviderContext.INSTANCE, TypeConversions.fromLogicalToDataType(physical));
        schema.open(null);
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode message : request.get("messages")) {
            ArrayNode rows = JSON.createArrayNode();
            try {
                byte[] bytes = message.isNull() ? null : Base64.getDecoder().decode(message.asText());
                schema.deserialize(bytes, new Collector<RowData>() {
                    public void collect(RowData row) {
                        rows.add(shown(row, type, true));
                    }
                    public void close() {}
                });
                results.add(rows);
            } catch (Throwable e) {
                results.add(JSON.createObjectNode().put("error", told(e)));
            }
        }
        return results;
    }

    static ArrayNode encode(JsonNode request) throws Exception {
        SerializationFormatFactory factory =
                FactoryUtil.discoverFactory(LOADER, SerializationFormatFactory.class, request.get("format").asText());
        RowType type = row(request, "fields");
        SerializationSchema<RowData> schema = factory.createEncodingFormat(null, options(request))
                .createRuntimeEncoder(new SinkRuntimeProviderContext(false), TypeConversions.fromLogicalToDataType(type));
        schema.open(null);
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode row : request.get("rows")) {
            try {
                GenericRowData data = (GenericRowData) read(row.get(1), type);
                for (RowKind kind : RowKind.values()) {
                    if (kind.shortString().equals(row.get(0).asText())) {
                        data.setRowKind(kind);
                    }
                }
                byte[] bytes = schema.serialize(data);
                results.add(bytes == null ? null : Base64.getEncoder().encodeToString(bytes));
            } catch (Throwable e) {
                results.add(JSON.createObjectNode().put("error", told(e)));
            }
        }
        return results;
    }

    static Configuration options(JsonNode request) {
        return Configuration.fromMap(JSON.convertValue(request.get("options"), Map.class));
    }

    static RowType row(JsonNode request, String key) {
        List<RowType.RowField> fields = new ArrayList<>();
        for (JsonNode field : request.get(key)) {
            fields.add(new RowType.RowField(field.get(0).asText(), LogicalTypeParser.parse(field.get(1).asText(), LOADER)));
        }
        return new RowType(false, fields);
    }

    static String told(Throwable e) {
        StringBuilder text = new StringBuilder();
        for (; e != null; e = e.getCause()) {
            text.append(e.getClass().getSimpleName()).append(": ").append(e.getMessage()).append("; ");
        }
        return text.toString();
    }

    // Values in JSON: moments as nanoseconds since 1970, dates as days, times as milliseconds, bytes in base64,
    // numbers with a fraction as text, maps as arrays of pairs.

    static JsonNode shown(RowData row, RowType type, boolean withKind) {
        ArrayNode node = JSON.createArrayNode();
        for (int at = 0; at < type.getFieldCount(); at++) {
            node.add(shown(RowData.createFieldGetter(type.getTypeAt(at), at).getFieldOrNull(row), type.getTypeAt(at)));
        }
        return withKind ? JSON.createArrayNode().add(row.getRowKind().shortString()).add(node) : node;
    }

    static JsonNode shown(Object value, LogicalType type) {
        if (value == null) {
            return NullNode.instance;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return BooleanNode.valueOf((Boolean) value);
            case FLOAT:
            case DOUBLE:
            case CHAR:
            case VARCHAR:
            case DECIMAL:
                return TextNode.valueOf(value.toString());
            case BINARY:
            case VARBINARY:
                return TextNode.valueOf(Base64.getEncoder().encodeToString((byte[]) value));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                TimestampData moment = (TimestampData) value;
                return TextNode.valueOf(BigDecimal.valueOf(moment.getMillisecond()).multiply(BigDecimal.valueOf(1000000))
                        .add(BigDecimal.valueOf(moment.getNanoOfMillisecond())).toPlainString());
            case ARRAY:
                return elements((ArrayData) value, ((ArrayType) type).getElementType());
            case MAP:
                MapType map = (MapType) type;
                return pairs((MapData) value, map.getKeyType(), map.getValueType());
            case MULTISET:
                return pairs((MapData) value, ((MultisetType) type).getElementType(), new IntType());
            case ROW:
                return shown((RowData) value, (RowType) type, false);
            default:
                return LongNode.valueOf(((Number) value).longValue());
        }
    }

    static ArrayNode elements(ArrayData array, LogicalType type) {
        ArrayNode node = JSON.createArrayNode();
        ArrayData.ElementGetter getter = ArrayData.createElementGetter(type);
        for (int at = 0; at < array.size(); at++) {
            node.add(shown(getter.getElementOrNull(array, at), type));
        }
        return node;
    }

    static ArrayNode pairs(MapData map, LogicalType key, LogicalType value) {
        ArrayNode keys = elements(map.keyArray(), key), values = elements(map.valueArray(), value);
        ArrayNode node = JSON.createArrayNode();
        for (int at = 0; at < keys.size(); at++) {
            node.add(JSON.createArrayNode().add(keys.get(at)).add(values.get(at)));
        }
        return node;
    }

    static Object read(JsonNode node, LogicalType type) {
        if (node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return node.asBoolean();
            case TINYINT:
                return (byte) node.asInt();
            case SMALLINT:
                return (short) node.asInt();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return node.asInt();
            case BIGINT:
                return node.asLong();
            case FLOAT:
                return Float.parseFloat(node.asText());
            case DOUBLE:
                return Double.parseDouble(node.asText());
            case CHAR:
            case VARCHAR:
                return StringData.fromString(node.asText());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return DecimalData.fromBigDecimal(new BigDecimal(node.asText()), decimal.getPrecision(), decimal.getScale());
            case BINARY:
            case VARBINARY:
                return Base64.getDecoder().decode(node.asText());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                long nanos = Long.parseLong(node.asText());
                return TimestampData.fromEpochMillis(Math.floorDiv(nanos, 1000000L), (int) Math.floorMod(nanos, 1000000L));
            case ARRAY:
                LogicalType element = ((ArrayType) type).getElementType();
                Object[] array = new Object[node.size()];
                for (int at = 0; at < array.length; at++) {
                    array[at] = read(node.get(at), element);
                }
                return new GenericArrayData(array);
            case MAP:
            case MULTISET:
                LogicalType key = type.getChildren().get(0);
                LogicalType value = type instanceof MapType ? type.getChildren().get(1) : new IntType();
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode pair : node) {
                    map.put(read(pair.get(0), key), read(pair.get(1), value));
                }
                return new GenericMapData(map);
            case ROW:
                RowType row = (RowType) type;
                GenericRowData data = new GenericRowData(row.getFieldCount());
                for (int at = 0; at < row.getFieldCount(); at++) {
                    data.setField(at, read(node.get(at), row.getTypeAt(at)));
                }
                return data;
            default:
                throw new IllegalArgumentException(type.toString());
        }
    }
}
