"""Every failure at every step of a batch's delivery, without a JVM: models of the cluster and of Spark, our code between."""
