// What the interface answers.
export interface Sampled {
  sampled_at: number | null;
  period_s: number;
  partial: string[];
  error: string | null;
}

export interface Page<Row> extends Sampled {
  items: Row[];
  total: number;
  cursor: number | null;
}

export interface BrokerRow {
  id: number;
  host: string;
  port: number;
  rack: string | null;
  bytes: number;
  total_bytes: number;
  usable_bytes: number;
  full_in_s: number | null;
  is_controller: boolean;
  leads: number;
  partitions: number;
}

export interface TopicRow {
  name: string;
  partitions: number;
  replicas: number;
  records: number;
  bytes: number | null;
  rate: number | null;
  groups: number;
  lag: number;
  without_leader: number;
  out_of_sync: number;
  is_internal: boolean;
}

export interface GroupRow {
  name: string;
  state: string;
  type: string;
  protocol: string;
  topics: string[];
  lag: number | null;
  lag_ms: number | null;
  consumed_per_s: number | null;
  in_per_s: number | null;
  caught_up_in_s: number | null;
  recent: number[];
}

export interface PartitionRow {
  partition: number;
  leader: number;
  replicas: number[];
  in_sync: number[];
  start: number;
  end: number;
}

export interface Topic extends Sampled, TopicRow {
  partition_rows: PartitionRow[];
  group_rows: GroupRow[];
  operations: string[];
}

export interface ConfigRow {
  name: string;
  value: string | null;
  source: string;
  read_only: boolean;
  sensitive: boolean;
  is_default: boolean;
  is_set_here: boolean;
  synonyms: [string, string | null, string][];
}

export interface Part {
  decoder: string;
  text: string | null;
  bytes: number;
  cut: boolean;
  schema_id?: number;
  by?: string;
  attempts?: { decoder: string; reason: string }[];
}

export interface RecordRow {
  partition: number;
  offset: number;
  timestamp: number;
  key: Part;
  value: Part;
  headers: (Part & { name: string })[];
  headers_left_out: number;
  masked?: string[];
}
