-- Schema evolution: a column that was dropped and added again is another one.
CREATE DATABASE docs; USE docs;
CREATE TABLE T (a STRING, b STRING, c STRING);
INSERT INTO T VALUES ('a1', 'b1', 'c1');
ALTER TABLE T DROP COLUMN c;
ALTER TABLE T ADD COLUMN c STRING;
INSERT INTO T VALUES ('a2', 'b2', 'c2');
-- Partitions: both forms of PARTITIONED BY, static and dynamic inserts, whole partitions.
CREATE TABLE page_view (user STRING, cnt INT) PARTITIONED BY (date STRING);
CREATE TABLE page_view_2 (user STRING, cnt INT, date STRING) PARTITIONED BY (date);
CREATE TABLE country_page_view (user STRING, cnt INT) PARTITIONED BY (date STRING, country STRING);
CREATE TABLE country_page_view_source (user STRING, cnt INT, date STRING, country STRING);
INSERT INTO country_page_view_source VALUES
  ('ann', 3, '2019-8-30', 'china'), ('bob', 5, '2019-8-31', 'peru');
INSERT INTO TABLE country_page_view PARTITION (date='2019-8-30', country='china')
  SELECT user, cnt FROM country_page_view_source WHERE country = 'china';
SHOW PARTITIONS country_page_view;
INSERT INTO TABLE country_page_view SELECT user, cnt, date, country FROM country_page_view_source;
INSERT INTO TABLE country_page_view PARTITION (date, country)
  SELECT user, cnt, date, country FROM country_page_view_source;
INSERT INTO TABLE country_page_view PARTITION (date='2019-8-30')
  SELECT user, cnt, country FROM country_page_view_source;
INSERT OVERWRITE TABLE country_page_view SELECT user, cnt, date, country FROM country_page_view_source;
ALTER TABLE country_page_view PARTITION (date='2019-8-31', country='peru')
  RENAME TO PARTITION (date='2019-9-01', country='peru');
CREATE TABLE table_name_2 LIKE country_page_view;
ALTER TABLE table_name_2 EXCHANGE PARTITION (date='2019-9-01', country='peru')
  WITH TABLE country_page_view;
ALTER TABLE country_page_view EXCHANGE PARTITION ((date='2019-9-01', country='peru'))
  WITH TABLE table_name_2;
ALTER TABLE country_page_view DROP PARTITION (date='2019-8-30'), PARTITION (country='peru');
SHOW PARTITIONS country_page_view PARTITION (date='2019-8-30', country='china');
SHOW TABLE EXTENDED IN docs LIKE 'country*' PARTITION (country='peru');
DESCRIBE FORMATTED docs.country_page_view cnt;
CREATE TABLE files (user STRING) PARTITIONED BY (date STRING)
  WITH ('type' = 'format-table', 'file.format' = 'csv', 'metastore.partitioned-table' = 'true');
MSCK REPAIR TABLE files;
ALTER TABLE files ADD PARTITION (date='2019-8-30');
-- Distribution.
CREATE TABLE PaimonTable (
  user_id BIGINT, item_id BIGINT, behavior STRING, dt STRING, hh STRING,
  PRIMARY KEY (dt, hh, user_id) NOT ENFORCED
) PARTITIONED BY (dt, hh) WITH ('bucket' = '2', 'bucket-key' = 'user_id');
CREATE TABLE KafkaTable (
  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  `user_id` BIGINT, `item_id` BIGINT, `behavior` STRING
);
CREATE TABLE MyTable (uid BIGINT, name STRING);
DROP TABLE MyTable;
CREATE TABLE MyTable (uid BIGINT PRIMARY KEY NOT ENFORCED, name STRING);
ALTER TABLE MyTable ADD DISTRIBUTION BY (uid) INTO 6 BUCKETS;
ALTER TABLE MyTable DROP DISTRIBUTION;
ALTER TABLE MyTable ADD DISTRIBUTION INTO 6 BUCKETS;
ALTER TABLE MyTable MODIFY DISTRIBUTION BY (uid) INTO 6 BUCKETS;
ALTER TABLE MyTable MODIFY DISTRIBUTION INTO 6 BUCKETS;
DROP TABLE MyTable;
CREATE TABLE MyTable (uid BIGINT, name STRING) DISTRIBUTED BY (uid) INTO 6 BUCKETS;
CREATE TABLE MyTable2 (uid BIGINT, name STRING) DISTRIBUTED BY HASH(uid) INTO 6 BUCKETS;
CREATE TABLE MyTable3 (uid BIGINT PRIMARY KEY NOT ENFORCED, name STRING)
  DISTRIBUTED INTO 6 BUCKETS;
ALTER TABLE MyTable MODIFY DISTRIBUTION INTO 3 BUCKETS;
ALTER TABLE IF EXISTS MyTable RENAME TO MyTable4;
-- Managed tables.
SET table-storage.bucket = 10;
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE managed (id BIGINT, v STRING, dt STRING) PARTITIONED BY (dt);
INSERT INTO managed PARTITION (dt='a') (v, id) VALUES ('x', 1), ('y', 2);
INSERT INTO docs.managed VALUES (3, 'z', 'b');
ALTER TABLE docs.managed COMPACT;
ALTER TABLE managed PARTITION (dt='a') COMPACT;
ALTER TABLE managed PARTITION (dt='a') SET 'change-tracking' = 'false';
ALTER TABLE managed SET 'change-tracking' = 'false';
DESCRIBE DETAIL TABLE docs.managed PARTITION (dt='a');
ALTER TABLE managed ADD PRIMARY KEY (dt, id) NOT ENFORCED;
INSERT INTO managed VALUES (3, 'zz', 'b');
UPDATE managed SET v = 'x2' WHERE id = 1;
DELETE FROM managed WHERE id = 2;
INSERT INTO managed VALUES (2, 'y', 'a');
ALTER TABLE managed PARTITION (dt='b') CLUSTERED INTO 2 BUCKETS;
ALTER TABLE managed CLUSTERED INTO 4 BUCKETS;
CREATE TABLE kept AS SELECT * FROM managed;
DROP TABLE managed;
