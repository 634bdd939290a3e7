//! World: requests, queues, small and big machines.
